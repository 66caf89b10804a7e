// What can be said of the targets that warm is given before anything is compiled for them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernwright/runtime.hpp"

namespace kernwright::tool {

/// "host, sm_80, …": host and what the devices that Kernwright knows ask for.
std::string target_names();

/// invalid_argument where the compiler that is here does not know a target and no device has it; unsupported where only the compiler does
/// not. A compiler that is not here, or fails for another reason, is the warming's own affair.
Result<> check_targets(const Runtime& runtime, std::span<const WarmRequest> requests);

/// A line for each target that no device asks for, with the one that devices of its capability do.
std::vector<std::string> target_notes(const Runtime& runtime, std::span<const WarmRequest> requests);

}  // namespace kernwright::tool
