// The interpreter's settings where neither an option nor a variable gives one.
#pragma once

#include <cstdint>

#include "kernwright/runtime.hpp"

namespace kernwright::host {

inline constexpr HostMode kDefaultMode = HostMode::fibers;
inline constexpr Bytes kDefaultSharedMemory{232'448};  // what a block may have on sm_90 and sm_100
inline constexpr std::uint64_t kDefaultSeed = 1;

}  // namespace kernwright::host
