#include "recording/row_copies.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

namespace kernwright {
namespace {

/// Extent and strides, in bytes, of a dimension that rows repeat along.
struct Repeat {
  std::int64_t count = 1, from_stride = 0, to_stride = 0;
};

}  // namespace

Result<std::vector<RowCopy>> row_copies(const TensorView& view, void* to) {
  const auto rank = static_cast<std::size_t>(std::clamp(view.rank, 0, TensorView::kMaxRank));
  const std::span<const std::int64_t> shape(view.shape.data(), rank), stride(view.stride.data(), rank);
  if (std::ranges::find(shape, std::int64_t{0}) != shape.end()) return std::vector<RowCopy>{};
  const std::int64_t element = element_bytes(view.dtype);
  std::int64_t row_bytes = element, dense_bytes = element;
  std::vector<Repeat> repeats;  // innermost first
  for (std::size_t d = rank; d-- > 0;) {
    const std::int64_t step = stride[d] * element;
    if (shape[d] == 1) continue;  // the stride of a single element is never used
    if (repeats.empty() && step == row_bytes) {
      row_bytes *= shape[d];
    } else if (!repeats.empty() && step == repeats.back().from_stride * repeats.back().count) {
      repeats.back().count *= shape[d];
    } else if (step < (repeats.empty() ? row_bytes : 1)) {
      return fail(ErrorCode::unsupported, fmt::format("strides [{}] make rows overlap", fmt::join(stride, ", ")));
    } else {
      repeats.push_back({shape[d], step, dense_bytes});
    }
    dense_bytes *= shape[d];
  }
  // A copy takes the dimension that is longest; the others are walked through.
  Repeat rows{1, row_bytes, row_bytes};
  if (const auto longest = std::ranges::max_element(repeats, {}, &Repeat::count); longest != repeats.end()) {
    rows = *longest;
    repeats.erase(longest);
  }
  if (rows.from_stride < row_bytes) {
    return fail(ErrorCode::unsupported, fmt::format("strides [{}] make rows overlap", fmt::join(stride, ", ")));
  }
  std::int64_t number = 1;
  for (const Repeat& each : repeats) number *= each.count;
  std::vector<RowCopy> copies;
  copies.reserve(static_cast<std::size_t>(number));
  for (std::int64_t i = 0; i < number; ++i) {
    std::int64_t rest = i, from_offset = 0, to_offset = 0;
    for (const Repeat& each : repeats) {
      from_offset += rest % each.count * each.from_stride;
      to_offset += rest % each.count * each.to_stride;
      rest /= each.count;
    }
    copies.push_back({static_cast<std::byte*>(to) + to_offset, static_cast<const std::byte*>(view.data) + from_offset,
                      static_cast<std::size_t>(rows.count), static_cast<std::size_t>(row_bytes), static_cast<std::size_t>(rows.from_stride),
                      static_cast<std::size_t>(rows.to_stride)});
  }
  return copies;
}

}  // namespace kernwright
