// Both union builds beside sets, with windows so small that a group's positions lie in several.
#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "fixtures/shared_store.hpp"
#include "kernwright/runtime.hpp"
#include "sparse_mla/union_build_params.cuh"

namespace kernwright {
namespace {

constexpr std::int64_t kTokens = 11;  // the last group is not whole
constexpr std::int64_t kRows = 70'000;
constexpr std::uint32_t kUsed = 0xFFFF'FFFFu;

struct Draw {
  int topk;
  std::uint32_t stretch;  ///< Positions of each of the three stretches.
};

/// Positions in three far stretches, some slots empty, some positions repeated by neighbours.
std::vector<std::int32_t> drawn_indices(const Draw& draw_of) {
  std::mt19937 random(7);
  std::vector<std::int32_t> indices(static_cast<std::size_t>(kTokens * draw_of.topk));
  for (std::int32_t& index : indices) {
    const auto draw = random();
    index = static_cast<std::int32_t>(draw % 3 * 30'000 + draw / 3 % draw_of.stretch);
    if (draw % 17 == 0) index = -1;
    if (draw % 19 == 0) index = static_cast<std::int32_t>(kRows);  // past the end: an empty slot too
  }
  return indices;
}

template <class T>
std::vector<T> downloaded(const DeviceBuffer& buffer, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  REQUIRE(buffer.download(std::as_writable_bytes(std::span(values))));
  return values;
}

void check_union(const char* name, const char* tile, int group_size, const Draw& draw = {60, 500}) {
  const int topk = draw.topk;
  CAPTURE(topk);
  CAPTURE(name);
  CAPTURE(tile);
  CAPTURE(group_size);
  const Runtime runtime = tests::shared_store_runtime();
  const DeviceId host = DeviceId::host();
  auto kernel = runtime.prepare({name, Specialisation{}.set("group_size", group_size), host, *Tile::parse(tile),
                                 sizeof(kw::sparse_mla::UnionBuildParams), std::nullopt});
  REQUIRE_MESSAGE(kernel, (kernel ? "" : kernel.error().text()));
  REQUIRE(kernel->report().tile_fitted == *Tile::parse(tile));

  const std::vector<std::int32_t> indices = drawn_indices(draw);
  const std::int64_t groups = (kTokens + group_size - 1) / group_size;
  const std::int64_t capacity = static_cast<std::int64_t>(group_size) * topk;
  const std::int64_t mask_bytes = group_size > 8 ? 2 : 1;
  const auto allocate = [&](std::int64_t bytes) {
    auto buffer = runtime.allocate(host, Bytes{static_cast<std::uint64_t>(bytes)});
    REQUIRE(buffer);
    REQUIRE(buffer->fill(std::byte{0xff}));
    return std::move(*buffer);
  };
  DeviceBuffer given = allocate(static_cast<std::int64_t>(indices.size()) * 4), rows = allocate(groups * capacity * 4);
  DeviceBuffer masks = allocate(groups * capacity * mask_bytes), counts = allocate(groups * 4), next_work = allocate(4);
  REQUIRE(given.upload(std::as_bytes(std::span(indices))));
  REQUIRE(downloaded<std::uint32_t>(next_work, 1).front() == kUsed);
  kw::sparse_mla::UnionBuildParams params{};
  params.indices = static_cast<const int*>(given.data());
  params.union_rows = static_cast<int*>(rows.data());
  params.union_masks = masks.data();
  params.union_counts = static_cast<int*>(counts.data());
  params.next_work = static_cast<unsigned*>(next_work.data());
  params.tokens = kTokens;
  params.kv_rows = kRows;
  params.capacity = capacity;
  params.topk = topk;
  REQUIRE(kernel->launch(Grid{static_cast<std::uint32_t>(groups), 1, 1}, params, {}));

  CHECK(downloaded<std::uint32_t>(next_work, 1).front() == 0);
  const auto got_rows = downloaded<std::int32_t>(rows, groups * capacity);
  const auto got_masks = downloaded<std::uint8_t>(masks, groups * capacity * mask_bytes);
  const auto got_counts = downloaded<std::int32_t>(counts, groups);
  for (std::int64_t group = 0; group < groups; ++group) {
    std::map<std::int32_t, std::uint32_t> expected;  // ascending
    for (std::int64_t token = 0; token < group_size && group * group_size + token < kTokens; ++token) {
      for (int slot = 0; slot < topk; ++slot) {
        const std::int32_t index = indices[static_cast<std::size_t>((group * group_size + token) * topk + slot)];
        if (index >= 0 && index < kRows) expected[index] |= 1u << token;
      }
    }
    REQUIRE(got_counts[static_cast<std::size_t>(group)] == static_cast<std::int32_t>(expected.size()));
    auto at = static_cast<std::size_t>(group * capacity);
    for (const auto& [row, owners] : expected) {
      const auto byte = at * static_cast<std::size_t>(mask_bytes);
      const std::uint32_t mask = mask_bytes == 1 ? got_masks[byte] : got_masks[byte] | static_cast<std::uint32_t>(got_masks[byte + 1]) << 8;
      CHECK(got_rows[at] == row);
      CHECK(mask == owners);
      ++at;
    }
  }
}

}  // namespace

TEST_CASE("union build on host: positions in several windows, beside sets") {
  for (const int group_size : {2, 8, 16}) check_union("sparse_mla/union_build", "portable:m1n8s1w8", group_size);
}

TEST_CASE("union build on host: the wide one, positions in several windows, beside sets") {
  for (const int group_size : {2, 8, 16}) {
    const char* tile = "portable:m4n16s1w8";
    check_union("sparse_mla/union_build_wide", tile, group_size);
    check_union("sparse_mla/union_build_wide", tile, group_size, {61, 500});     // rows that are not 16-byte aligned
    check_union("sparse_mla/union_build_wide", tile, group_size, {2400, 9000});  // longer than what registers hold; more rows than masks
  }
}

}  // namespace kernwright
