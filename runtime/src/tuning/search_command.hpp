// What measures tiles of a template, for messages that tell a user to.
#pragma once

#include <string_view>

namespace kernwright {

/// The words of the program that search the template's tiles; empty where nothing does.
std::string_view search_command(std::string_view template_name);

}  // namespace kernwright
