// The arguments of one paged MLA decode call, checked and reduced to what the kernels take.
#pragma once

#include <cstdint>

#include "kernwright/paged_mla_decode.hpp"

namespace kernwright {

struct DecodeShape {
  std::int64_t batch = 0;           ///< B
  std::int64_t largest_length = 0;  ///< Tokens that the block table's width holds, below 2^31.
};

/// Shapes, strides, dtypes, alignment, sm_scale and the workspace's alignment; its size is checked where it is used.
Result<DecodeShape> check_arguments(const PagedMlaDecodeArguments& arguments, const PagedMlaDecodeOptions& options);

}  // namespace kernwright
