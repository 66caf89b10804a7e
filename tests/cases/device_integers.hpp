// Integers in device memory. Uses doctest's assertions; the caller is a TEST_CASE.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "kernwright/runtime.hpp"
#include "kernwright/tensor_view.hpp"

namespace kernwright::cases {

/// Integers on the device as i32 or i64.
class DeviceIntegers {
 public:
  DeviceIntegers(const Runtime& runtime, DeviceId device, DType dtype, const std::vector<std::int64_t>& values)
      : dtype_(dtype), count_(values.size()) {
    auto buffer = runtime.allocate(device, Bytes{std::max<std::size_t>(bytes(), 16)});
    REQUIRE(buffer);
    buffer_ = std::move(*buffer);
    write(values);
  }
  /// Other values in the same memory: what a captured graph reads at its next replay. As many as before.
  void write(const std::vector<std::int64_t>& values) {
    REQUIRE(values.size() == count_);
    if (dtype_ == DType::i64) {
      REQUIRE(buffer_.upload(std::as_bytes(std::span(values))));
    } else {
      std::vector<std::int32_t> narrow;
      std::ranges::transform(values, std::back_inserter(narrow), [](std::int64_t value) { return static_cast<std::int32_t>(value); });
      REQUIRE(buffer_.upload(std::as_bytes(std::span(narrow))));
    }
  }
  [[nodiscard]] std::vector<std::int64_t> values() const {
    std::vector<std::int64_t> wide(count_);
    if (dtype_ == DType::i64) {
      REQUIRE(buffer_.download(std::as_writable_bytes(std::span(wide))));
      return wide;
    }
    std::vector<std::int32_t> narrow(count_);
    REQUIRE(buffer_.download(std::as_writable_bytes(std::span(narrow))));
    return {narrow.begin(), narrow.end()};
  }
  [[nodiscard]] TensorView line() const { return TensorView::contiguous(buffer_.data(), dtype_, {static_cast<std::int64_t>(count_)}); }
  [[nodiscard]] TensorView line(std::int64_t count) const { return TensorView::contiguous(buffer_.data(), dtype_, {count}); }
  [[nodiscard]] TensorView table(std::int64_t rows, std::int64_t columns, std::int64_t stride) const {
    TensorView view = TensorView::contiguous(buffer_.data(), dtype_, {rows, columns});
    view.stride[0] = stride;
    return view;
  }

 private:
  [[nodiscard]] std::size_t bytes() const { return count_ * (dtype_ == DType::i64 ? 8 : 4); }
  DType dtype_;
  std::size_t count_;
  DeviceBuffer buffer_;
};

}  // namespace kernwright::cases
