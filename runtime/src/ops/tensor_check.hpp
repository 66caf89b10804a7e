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

/// Rows of bf16 that kernels read and write 16 bytes at a time.
constexpr TensorRule vector_rule(std::string_view name, std::span<const std::int64_t> shape) {
  constexpr std::int64_t kElements = 8;
  constexpr std::uintptr_t kBytes = 16;
  return {name, DType::bf16, shape, false, kElements, kBytes};
}
/// A dense tensor of 32-bit elements.
constexpr TensorRule word_rule(std::string_view name, DType dtype, std::span<const std::int64_t> shape) {
  constexpr std::uintptr_t kBytes = 4;
  return {name, dtype, shape, true, 1, kBytes};
}

/// −1 where the view does not have the dimension.
constexpr std::int64_t extent(const TensorView& view, int dimension) {
  return view.rank > dimension && view.rank <= TensorView::kMaxRank ? view.shape[static_cast<std::size_t>(dimension)] : -1;
}

inline constexpr std::uint64_t kWorkspaceAlignment = 256;

Result<> check_finite(std::string_view name, float value);
Result<> check_workspace_alignment(const void* workspace);

}  // namespace kernwright
