#include "support/union_sizes.hpp"

#include <doctest/doctest.h>

#include <set>

#include "support/index_walk.hpp"

using namespace kernwright::support;

TEST_CASE("union sizes: a small case by hand, with empty slots, lengths, repetitions and a smaller last group") {
  // Token 0 {0, 1}; 1 {1, 2}; 2 {} (length 0); 3 {2} (2 twice); 4 {4} (−1 and 9 are empty slots).
  const std::vector<std::int32_t> indices{0, 1, 3, /**/ 1, 2, 3, /**/ 0, 1, 2, /**/ 2, 2, 3, /**/ -1, 9, 4};
  const std::vector<std::int32_t> lengths{2, 2, 0, 2, 3};
  const Selection selection{indices, lengths, 5, 3, 9};
  CHECK(selected_slots(selection) == 2 + 2 + 0 + 2 + 1);
  CHECK(union_sizes(selection, 1) == std::vector<std::int64_t>{2, 2, 0, 1, 1});
  CHECK(union_sizes(selection, 2) == std::vector<std::int64_t>{3, 1, 1});
  CHECK(union_sizes(selection, 4) == std::vector<std::int64_t>{3, 1});
  CHECK(union_sizes(selection, 8) == std::vector<std::int64_t>{4});
  const Selection all{indices, {}, 5, 3, 10};
  CHECK(union_sizes(all, 2) == std::vector<std::int64_t>{4, 4, 2});
  CHECK(union_sizes(Selection{}, 2).empty());
}

TEST_CASE("union sizes: a walk against sets") {
  WalkOptions options;
  options.tokens = 50;
  options.topk = 24;
  options.batch = 2;
  options.churn = 0.2;
  options.seed = 5;
  const auto walk = make_walk(options);
  REQUIRE(walk);
  const Selection selection{walk->indices, {}, walk->tokens, walk->topk, walk->kv_rows};
  for (const int group : {2, 4, 8, 16}) {
    std::vector<std::int64_t> expected;
    for (std::int64_t first = 0; first < walk->tokens; first += group) {
      std::set<std::int32_t> rows;
      for (std::int64_t i = first * walk->topk; i < std::min(first + group, walk->tokens) * walk->topk; ++i) {
        const std::int32_t position = walk->indices[static_cast<std::size_t>(i)];
        if (position >= 0 && position < walk->kv_rows) rows.insert(position);
      }
      expected.push_back(static_cast<std::int64_t>(rows.size()));
    }
    CHECK(union_sizes(selection, group) == expected);
  }
}

TEST_CASE("union sizes: mean and percentiles by nearest rank") {
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 200; i > 0; --i) sizes.push_back(i);
  const SizeSummary summary = summarize(sizes);
  CHECK(summary.groups == 200);
  CHECK(summary.mean == 100.5);
  CHECK(summary.p50 == 100);
  CHECK(summary.p99 == 198);
  CHECK(summary.largest == 200);
  CHECK(summarize({7}).p99 == 7);
  CHECK(summarize({}).groups == 0);
}

TEST_CASE("union sizes: a token's cost counts a pass for every 64 rows that are begun") {
  CHECK(rows_per_token(100, 8, 8, 8, 64) == 12.5);  // 64 rows: one pass
  CHECK(rows_per_token(100, 8, 8, 9, 64) == 25.0);  // 72 rows: two
  CHECK(rows_per_token(100, 10, 1, 128, 64) == 20.0);
  CHECK(rows_per_token(0, 0, 2, 8, 64) == 0);
}
