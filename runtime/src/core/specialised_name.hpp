// How messages name a template with its constants.
#pragma once

#include <string>
#include <string_view>

#include "kernwright/specialisation.hpp"

namespace kernwright {

/// "sparse_mla/union_build (group_size=2)"; the bare name where the template has no constants.
inline std::string specialised_name(std::string_view template_name, const Specialisation& specialisation) {
  std::string name(template_name);
  if (const std::string constants = specialisation.text(); !constants.empty()) name += " (" + constants + ")";
  return name;
}

}  // namespace kernwright
