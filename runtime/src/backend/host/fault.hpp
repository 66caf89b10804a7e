// How a launch that cannot go on is stopped, and how places are written in its diagnosis.
#pragma once

#include <string>
#include <string_view>

#include "backend/host/simt/abi.hpp"

namespace kernwright::host {

/// Thrown by a primitive to leave a CUDA thread that runs on its OS thread's own stack. Fibers are abandoned instead.
struct ThreadAbandoned {};

/// The one reason to stop that is not the kernel's fault.
inline constexpr std::string_view kOutOfMemory = "out of memory";

std::string place(kw::simt::Location where);  ///< "sparse_mla/prefill_mma.cu:41"; the compiler's "./" is left out.
std::string place(kw::simt::Index block);     ///< "(2, 0, 0)"

}  // namespace kernwright::host
