#include "support/sparse_mla_work.hpp"

#include <doctest/doctest.h>

#include <set>

#include "support/index_walk.hpp"

using namespace kernwright::support;

TEST_CASE("sparse MLA work: a small case by hand") {
  // Two groups of two tokens over five rows; −1 and 9 are empty slots.
  const std::vector<std::int32_t> indices{0, 1, -1, 1, 2, 9, 3, 3, -1, 4, 3, 0};
  const SparseMlaWork work = sparse_mla_work(indices, {}, 4, 3, 5, 8, 576, 512, 2);
  CHECK(work.gathered_rows == 3 + 3);  // {0, 1, 2}, {0, 3, 4}
  CHECK(work.relative_union == doctest::Approx(3.0 / (9.0 / 4)));
  CHECK(work.operations == 2.0 * 1088 * 16 * 6);
  CHECK(work.bytes == 2.0 * 4 * 8 * 1088 + 4.0 * 12 + 2.0 * 5 * 576);
  const SparseMlaWork alone = sparse_mla_work(indices, {}, 4, 3, 5, 8, 576, 512, 0);
  CHECK(alone.gathered_rows == 9);
  CHECK(alone.relative_union == doctest::Approx(1));
  CHECK(alone.operations == 2.0 * 1088 * 8 * 9);
}

TEST_CASE("sparse MLA work: unions of a walk against sets") {
  WalkOptions options;
  options.tokens = 83;
  options.topk = 24;
  options.churn = 0.2;
  const auto walk = make_walk(options);
  REQUIRE(walk);
  for (const int group : {2, 4, 8, 16}) {
    std::int64_t rows = 0;
    for (std::int64_t first = 0; first < walk->tokens; first += group) {
      std::set<std::int32_t> distinct;
      for (std::int64_t slot = first * walk->topk; slot < std::min(first + group, walk->tokens) * walk->topk; ++slot) {
        if (walk->indices[static_cast<std::size_t>(slot)] >= 0) distinct.insert(walk->indices[static_cast<std::size_t>(slot)]);
      }
      rows += static_cast<std::int64_t>(distinct.size());
    }
    CHECK(sparse_mla_work(walk->indices, {}, walk->tokens, walk->topk, walk->kv_rows, 8, 576, 512, group).gathered_rows == rows);
  }
  const auto nothing = sparse_mla_work({}, {}, 0, 24, 0, 8, 576, 512, 8);
  CHECK(nothing.gathered_rows == 0);
  CHECK(nothing.bytes == 0);
}
