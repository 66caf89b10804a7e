// From the words of `kernwright warm` to requests.
#pragma once

#include <string>
#include <vector>

#include "kernwright/runtime.hpp"
#include "warm.hpp"

namespace kernwright::tool {

struct WarmSelection {
  std::vector<WarmRequest> requests;
  std::string description;  ///< What they are, for people: "the default list: …".
};

/// invalid_argument, not_found and malformed where a word or the list is off; driver_unavailable and unsupported where the devices that the
/// words ask for are not here. Compiles nothing.
Result<WarmSelection> select_requests(const Runtime& runtime, const WarmWords& words);

}  // namespace kernwright::tool
