// Lists of numbers as words of a command line.
#pragma once

#include <string_view>
#include <vector>

#include "kernwright/result.hpp"

namespace kernwright::support {

/// "8,16,32", "1-128", "1-8,64": numbers and ranges, both ends included, in the order given, each once. invalid_argument names the option,
/// the part that is off and what is legal.
Result<std::vector<int>> parse_numbers(std::string_view option, std::string_view words, int smallest, int largest);

}  // namespace kernwright::support
