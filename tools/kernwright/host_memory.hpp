// Whether this machine has the memory for a job, asked before it is taken.
#pragma once

#include <cstdint>
#include <string_view>

#include "kernwright/result.hpp"

namespace kernwright::tool {

/// out_of_memory where `bytes` (a count that may exceed what 64 bits hold) is more than the kernel says is available: Linux would
/// hand out the addresses and end the process later.
Result<> require_host_memory(double bytes, std::string_view purpose);

}  // namespace kernwright::tool
