// The arguments of one sparse MLA prefill call, checked and reduced to what the kernels take.
#pragma once

#include <cstdint>

#include "kernwright/sparse_mla_prefill.hpp"

namespace kernwright {

struct CallShape {
  std::int64_t tokens = 0;   ///< T
  std::int64_t kv_rows = 0;  ///< S
  std::int64_t topk = 0;     ///< K
};

/// Shapes, strides, dtypes, alignment, sm_scale and the workspace's alignment; the workspace's size is checked where it is used.
Result<CallShape> check_arguments(const SparseMlaPrefillArguments& arguments, const SparseMlaPrefillOptions& options);

}  // namespace kernwright
