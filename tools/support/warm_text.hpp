// A warming's progress in words.
#pragma once

#include <string>

#include "kernwright/warming.hpp"

namespace kernwright::support {

/// Beside a bar: what is left, then what is compiling. "24 s left: sm_90a sparse_mla/prefill heads=8 … (and 1 more)".
std::string warm_bar_detail(const WarmProgress& progress);

/// For files and pipes, of a kernel that has finished: "12/173 built sm_90a sparse_mla/prefill heads=8 … in 265 ms, 24 s left". Empty where
/// the call tells of none.
std::string warm_line(const WarmProgress& progress);

}  // namespace kernwright::support
