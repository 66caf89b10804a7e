// A borrowed strided tensor: the caller owns the memory.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "kernwright/dtype.hpp"

namespace kernwright {

/// At most four dimensions. Shapes and strides are in elements. `data` null means "absent" where an argument is optional.
struct TensorView {
  static constexpr int kMaxRank = 4;

  void* data = nullptr;
  DType dtype = DType::bf16;
  int rank = 0;
  std::array<std::int64_t, kMaxRank> shape{};
  std::array<std::int64_t, kMaxRank> stride{};

  /// A dense row-major view. At most kMaxRank extents; further ones are dropped and `rank` says so.
  static constexpr TensorView contiguous(void* data, DType dtype, std::initializer_list<std::int64_t> shape) {
    TensorView view{data, dtype, static_cast<int>(shape.size()), {}, {}};
    int i = 0;
    for (const std::int64_t extent : shape) {
      if (i < kMaxRank) view.shape[static_cast<std::size_t>(i)] = extent;
      ++i;
    }
    std::int64_t step = 1;
    for (int d = (view.rank < kMaxRank ? view.rank : kMaxRank) - 1; d >= 0; --d) {
      view.stride[static_cast<std::size_t>(d)] = step;
      step *= view.shape[static_cast<std::size_t>(d)];
    }
    return view;
  }
  [[nodiscard]] constexpr bool present() const noexcept { return data != nullptr; }
};

}  // namespace kernwright
