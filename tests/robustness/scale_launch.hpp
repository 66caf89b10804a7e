// Prepares and launches test/scale on host, stepping down on the way, and compares with plain arithmetic.
#pragma once

#include <cstdint>

#include "kernwright/runtime.hpp"

namespace kernwright::robustness {

/// The tile asked for does not fit and n200 does, so a launch is a table of plans, a kernel and a fit. An error where a step failed or a
/// number is wrong; registers the template where that has not been done.
Result<Kernel> launch_scale(const Runtime& runtime, std::int64_t factor);

}  // namespace kernwright::robustness
