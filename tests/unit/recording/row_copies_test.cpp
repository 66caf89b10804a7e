#include "recording/row_copies.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <numeric>

using namespace kernwright;

namespace {

/// Element by element, the slow way.
std::vector<std::uint16_t> dense_of(const TensorView& view) {
  std::vector<std::uint16_t> dense;
  const auto* const data = static_cast<const std::uint16_t*>(view.data);
  for (std::int64_t i = 0; i < view.shape[0]; ++i) {
    for (std::int64_t k = 0; k < view.shape[1]; ++k) {
      for (std::int64_t j = 0; j < view.shape[2]; ++j) {
        dense.push_back(data[i * view.stride[0] + k * view.stride[1] + j * view.stride[2]]);
      }
    }
  }
  return dense;
}

void carry_out(const std::vector<RowCopy>& copies) {
  for (const RowCopy& each : copies) {
    CHECK(each.from_pitch >= each.row_bytes);
    CHECK(each.to_pitch >= each.row_bytes);
    for (std::size_t row = 0; row < each.rows; ++row) {
      std::memcpy(static_cast<std::byte*>(each.to) + row * each.to_pitch, static_cast<const std::byte*>(each.from) + row * each.from_pitch,
                  each.row_bytes);
    }
  }
}

}  // namespace

TEST_CASE("row copies: every layout of three dimensions comes out dense, in as few copies as it takes") {
  std::vector<std::uint16_t> memory(4096);
  std::iota(memory.begin(), memory.end(), std::uint16_t{1});
  struct Layout {
    std::array<std::int64_t, 4> shape, stride;
    std::size_t copies;
  };
  const Layout layouts[] = {
      {{5, 3, 16}, {48, 16, 1}, 1},   // dense
      {{5, 3, 16}, {64, 16, 1}, 1},   // a slice of wider tokens
      {{5, 3, 16}, {96, 32, 1}, 1},   // a slice of wider heads
      {{5, 3, 16}, {200, 24, 1}, 3},  // both
      {{3, 5, 16}, {200, 24, 1}, 3},  // the same, walked along the other dimension
      {{5, 3, 16}, {16, 80, 1}, 3},   // heads outermost
      {{1, 3, 16}, {7, 32, 1}, 1},    // one token: its stride is nobody's
      {{5, 1, 16}, {24, 3, 1}, 1},
  };
  for (const Layout& layout : layouts) {
    const TensorView view{memory.data(), DType::bf16, 3, layout.shape, layout.stride};
    std::vector<std::uint16_t> to(static_cast<std::size_t>(layout.shape[0] * layout.shape[1] * layout.shape[2]));
    const auto copies = row_copies(view, to.data());
    REQUIRE_MESSAGE(copies, (copies ? "" : copies.error().message));
    CHECK(copies->size() == layout.copies);
    carry_out(*copies);
    CHECK(to == dense_of(view));
  }
}

TEST_CASE("row copies: rows that overlap along an outer dimension are refused as well") {
  std::vector<std::uint16_t> memory(4096);
  const auto copies = row_copies(TensorView{memory.data(), DType::bf16, 3, {4, 2, 16}, {8, 1000, 1}}, memory.data());
  REQUIRE_FALSE(copies);
  CHECK(copies.error().code == ErrorCode::unsupported);
}

TEST_CASE("row copies: nothing for no elements, and rows that overlap are refused") {
  std::vector<std::uint16_t> memory(512);
  CHECK(row_copies(TensorView{memory.data(), DType::bf16, 3, {0, 3, 16}, {48, 16, 1}}, memory.data())->empty());
  for (const std::int64_t token_stride : {std::int64_t{0}, std::int64_t{8}, std::int64_t{-48}}) {
    const auto copies = row_copies(TensorView{memory.data(), DType::bf16, 2, {4, 16}, {token_stride, 1}}, memory.data());
    REQUIRE_FALSE(copies);
    CHECK(copies.error().code == ErrorCode::unsupported);
  }
}
