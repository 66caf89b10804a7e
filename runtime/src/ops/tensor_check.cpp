#include "ops/tensor_check.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace kernwright {
namespace {

std::string extents(std::span<const std::int64_t> values) {
  std::string text = "[";
  for (const std::int64_t value : values) {
    text += text.size() > 1 ? ", " : "";
    text += value < 0 ? "any" : std::to_string(value);
  }
  return text + "]";
}

tl::unexpected<Error> refuse(const TensorRule& rule, std::string_view what, const std::string& came, const std::string& legal) {
  return fail(ErrorCode::invalid_argument, fmt::format("argument {}: {} is {}; legal is {}", rule.name, what, came, legal));
}

}  // namespace

Result<> check_tensor(const TensorView& view, const TensorRule& rule) {
  const auto rank = rule.shape.size();
  if (view.rank < 0 || static_cast<std::size_t>(view.rank) != rank) {
    return refuse(rule, "the rank", std::to_string(view.rank), fmt::format("{}, shape {}", rank, extents(rule.shape)));
  }
  if (view.dtype != rule.dtype) {
    return refuse(rule, "the dtype", std::string(to_string(view.dtype)), std::string(to_string(rule.dtype)));
  }
  const std::span<const std::int64_t> shape(view.shape.data(), rank);
  const std::span<const std::int64_t> stride(view.stride.data(), rank);
  bool empty = false;
  for (std::size_t d = 0; d < rank; ++d) {
    if (shape[d] < 0 || (rule.shape[d] >= 0 && shape[d] != rule.shape[d]))
      return refuse(rule, "the shape", extents(shape), extents(rule.shape));
    empty |= shape[d] == 0;
  }
  if (empty) return {};
  if (view.data == nullptr) return refuse(rule, "the pointer", "null", "device memory of that shape");
  if (reinterpret_cast<std::uintptr_t>(view.data) % rule.alignment != 0) {
    return refuse(rule, "the pointer", fmt::format("{}", view.data), fmt::format("a multiple of {} bytes", rule.alignment));
  }
  std::int64_t row_major = 1;
  for (std::size_t d = rank; d-- > 0;) {
    const bool innermost = d + 1 == rank;
    if (shape[d] != 1) {  // the stride of a single element is never used
      if (rule.dense ? stride[d] != row_major : innermost && stride[d] != 1) {
        return refuse(rule, "the strides", extents(stride), rule.dense ? "row-major without gaps" : "1 innermost");
      }
      if (!innermost && stride[d] % rule.stride_multiple != 0) {
        return refuse(rule, "the strides", extents(stride),
                      fmt::format("multiples of {} elements but for the innermost", rule.stride_multiple));
      }
    }
    row_major *= shape[d];
  }
  return {};
}

Result<> check_finite(std::string_view name, float value) {
  if (std::isfinite(value)) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("argument {}: the value is {}; legal is a finite one", name, value));
}

Result<> check_workspace_alignment(const void* workspace) {
  if (reinterpret_cast<std::uintptr_t>(workspace) % kWorkspaceAlignment == 0) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("argument workspace: the pointer is {}; legal is a multiple of {} bytes", workspace, kWorkspaceAlignment));
}

}  // namespace kernwright
