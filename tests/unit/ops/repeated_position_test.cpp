#include <doctest/doctest.h>

#include <vector>

#include "kernwright/sparse_mla_prefill.hpp"

using namespace kernwright;

TEST_CASE("repeated position: the first row that names a valid position twice is reported") {
  RuntimeOptions options;
  options.memory_only = true;
  const auto runtime = Runtime::create(options);
  REQUIRE(runtime);
  std::vector<std::int32_t> indices{0, 1, 2, -1, -1, 3,   // -1 may repeat
                                    9, 9, 1, 2,  3,  4,   // 9 is no position of 8 rows
                                    5, 4, 3, 2,  5,  3};  // 5 at slots 0 and 4
  const auto check = [&](std::vector<std::int32_t> lengths) {
    const TensorView view = TensorView::contiguous(indices.data(), DType::i32, {3, 6});
    const TensorView length = lengths.empty() ? TensorView{} : TensorView::contiguous(lengths.data(), DType::i32, {3});
    auto found = find_repeated_position(*runtime, DeviceId::host(), view, length, 8);
    REQUIRE(found);
    return *found;
  };
  const auto found = check({});
  REQUIRE(found);
  CHECK(found->token == 2);
  CHECK(found->position == 5);
  CHECK(found->first_slot == 0);
  CHECK(found->second_slot == 4);
  CHECK_FALSE(check({6, 6, 4}));
  const auto later = check({6, 6, 99});
  REQUIRE(later);
  CHECK(later->position == 5);
  CHECK_FALSE(find_repeated_position(*runtime, DeviceId::host(), TensorView{}, {}, 8));
  TensorView strided = TensorView::contiguous(indices.data(), DType::i32, {3, 6});
  strided.stride[0] = 12;
  CHECK_FALSE(find_repeated_position(*runtime, DeviceId::host(), strided, {}, 8));
  CHECK_FALSE(find_repeated_position(*runtime, DeviceId::host(), TensorView::contiguous(nullptr, DType::i32, {3, 6}), {}, 8));
}
