// Checks of one tensor argument. Each names the argument, what came and what is legal. On the hot path only comparisons run; text is made
// when one fails.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kernwright/result.hpp"
#include "kernwright/tensor_view.hpp"

namespace kernwright {

/// What a tensor argument must be. `shape` gives the extents; -1: any.
struct TensorRule {
  std::string_view name;
  DType dtype;
  std::span<const std::int64_t> shape;
  bool dense = false;                ///< Strides must be row-major without gaps.
  std::int64_t stride_multiple = 1;  ///< Of every stride but the innermost, which must be 1.
  std::uintptr_t alignment = 1;      ///< Of the pointer, bytes.
};

/// invalid_argument where the view breaks the rule; a null pointer is legal only for a tensor without elements.
Result<> check_tensor(const TensorView& view, const TensorRule& rule);

}  // namespace kernwright
