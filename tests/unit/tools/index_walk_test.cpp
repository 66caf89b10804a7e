#include "support/index_walk.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <set>
#include <span>

using namespace kernwright;
using namespace kernwright::support;

namespace {

std::span<const std::int32_t> row(const Walk& walk, std::int64_t token) {
  return std::span(walk.indices).subspan(static_cast<std::size_t>(token * walk.topk), static_cast<std::size_t>(walk.topk));
}
std::set<std::int32_t> positions(const Walk& walk, std::int64_t token) {
  std::set<std::int32_t> set;
  for (const std::int32_t position : row(walk, token)) {
    if (position >= 0) set.insert(position);
  }
  return set;
}
std::size_t in_common(const std::set<std::int32_t>& a, const std::set<std::int32_t>& b) {
  return static_cast<std::size_t>(std::ranges::count_if(a, [&](std::int32_t position) { return b.contains(position); }));
}
/// Rows in the union of G tokens, on average over groups whose tokens all select K rows, relative to K.
double union_ratio(const Walk& walk, std::int64_t group_size) {
  double total = 0;
  std::int64_t groups = 0;
  for (std::int64_t first = (walk.topk + group_size - 1) / group_size * group_size; first + group_size <= walk.tokens;
       first += group_size) {
    std::set<std::int32_t> merged;
    for (std::int64_t token = first; token < first + group_size; ++token) merged.merge(positions(walk, token));
    total += static_cast<double>(merged.size());
    ++groups;
  }
  return total / static_cast<double>(groups) / static_cast<double>(walk.topk);
}

}  // namespace

TEST_CASE("walk: each token selects distinct rows of its own past, and all of them while they fit") {
  const Walk walk = make_walk({.tokens = 300, .batch = 3, .topk = 70, .churn = 0.1, .seed = 4}).value();
  REQUIRE(walk.tokens == 900);
  REQUIRE(walk.kv_rows == 900);
  REQUIRE(walk.indices.size() == 900 * 70);
  for (std::int64_t request = 0; request < 3; ++request) {
    for (std::int64_t t = 0; t < 300; ++t) {
      const std::int64_t token = request * 300 + t;
      const std::set<std::int32_t> set = positions(walk, token);
      const std::int64_t n = std::min<std::int64_t>(t + 1, 70);
      REQUIRE(static_cast<std::int64_t>(set.size()) == n);
      REQUIRE(*set.begin() >= request * 300);
      REQUIRE(*set.rbegin() <= token);
      if (t + 1 <= 70) {
        REQUIRE(*set.rbegin() == token);
        for (std::int64_t slot = n; slot < 70; ++slot) REQUIRE(row(walk, token)[static_cast<std::size_t>(slot)] == -1);
      }
    }
  }
}

TEST_CASE("walk: a token replaces the share of rows that churn says, in place") {
  const Walk walk = make_walk({.tokens = 600, .topk = 100, .churn = 0.05, .seed = 2}).value();
  for (std::int64_t t = 105; t + 1 < 600; ++t) {
    REQUIRE(in_common(positions(walk, t), positions(walk, t + 1)) == 95);
    std::int64_t changed = 0;
    for (std::size_t slot = 0; slot < 100; ++slot) changed += row(walk, t)[slot] != row(walk, t + 1)[slot] ? 1 : 0;
    REQUIRE(changed == 5);
  }
  // Where fewer rows than that are left, all of them come in.
  CHECK(in_common(positions(walk, 99), positions(walk, 100)) == 99);
  CHECK(in_common(positions(walk, 101), positions(walk, 102)) == 97);
}

TEST_CASE("walk: every row of the past is selected in the long run") {
  const Walk walk = make_walk({.tokens = 2000, .topk = 50, .churn = 0.2, .seed = 3}).value();
  std::set<std::int32_t> seen;
  for (std::int64_t t = 0; t < walk.tokens; ++t) seen.merge(positions(walk, t));
  // Row r is missed with probability about (r / 2000)^10, so the first half has practically no gaps.
  CHECK(std::ranges::count_if(seen, [](std::int32_t position) { return position < 1000; }) >= 997);
}

TEST_CASE("walk: churn 0 keeps a token's rows, churn 1 replaces all") {
  const Walk still = make_walk({.tokens = 200, .topk = 20, .churn = 0}).value();
  CHECK(positions(still, 199) == positions(still, 20));
  const Walk all = make_walk({.tokens = 200, .topk = 20, .churn = 1}).value();
  CHECK(in_common(positions(all, 150), positions(all, 151)) == 0);
}

TEST_CASE("walk: a group's union grows by the churn for each token") {
  // 1 + churn (G - 1), less the few rows that come back within the group.
  const Walk walk = make_walk({.tokens = 1024, .topk = 256, .churn = 0.05}).value();
  CHECK(union_ratio(walk, 2) == doctest::Approx(1.05).epsilon(0.005));
  CHECK(union_ratio(walk, 4) == doctest::Approx(1.15).epsilon(0.01));
  CHECK(union_ratio(walk, 8) == doctest::Approx(1.34).epsilon(0.02));
}

TEST_CASE("walk: the same options give the same walk, another seed another one") {
  const WalkOptions options{.tokens = 200, .batch = 2, .topk = 33, .churn = 0.07, .seed = 9};
  const Walk a = make_walk(options).value();
  CHECK(a.indices == make_walk(options).value().indices);
  WalkOptions other = options;
  other.seed = 10;
  CHECK(a.indices != make_walk(other).value().indices);
  // The requests of one batch differ as well.
  std::vector<std::int32_t> first(a.indices.begin(), a.indices.begin() + 200 * 33);
  std::vector<std::int32_t> second(a.indices.begin() + 200 * 33, a.indices.end());
  for (std::int32_t& position : second) position -= position >= 0 ? 200 : 0;
  CHECK(first != second);
}

TEST_CASE("walk: kv_rows gives one set of rows to all requests") {
  const Walk longer = make_walk({.tokens = 50, .batch = 2, .topk = 40, .kv_rows = 1000}).value();
  CHECK(longer.kv_rows == 1000);
  for (std::int64_t token = 0; token < 100; ++token) {
    REQUIRE(positions(longer, token).size() == 40);
    REQUIRE(*positions(longer, token).rbegin() <= 950 + token % 50);
  }
  const Walk shorter = make_walk({.tokens = 50, .topk = 40, .kv_rows = 7}).value();
  CHECK(positions(shorter, 2).size() == 3);
  CHECK(positions(shorter, 49) == std::set<std::int32_t>{0, 1, 2, 3, 4, 5, 6});
  const Walk none = make_walk({.tokens = 5, .topk = 4, .kv_rows = 0}).value();
  CHECK(std::ranges::all_of(none.indices, [](std::int32_t position) { return position == -1; }));
  CHECK(make_walk({.tokens = 0, .topk = 4}).value().indices.empty());
}

TEST_CASE("walk: options out of range are refused by name") {
  const auto message = [](const WalkOptions& options) {
    const Result<Walk> walk = make_walk(options);
    REQUIRE_FALSE(walk.has_value());
    CHECK(walk.error().code == ErrorCode::invalid_argument);
    return walk.error().message;
  };
  CHECK(message({.tokens = -1}).find("tokens is -1") != std::string::npos);
  CHECK(message({.batch = 0}).find("batch is 0") != std::string::npos);
  CHECK(message({.topk = 4097}).find("topk is 4097") != std::string::npos);
  CHECK(message({.kv_rows = -5}).find("kv_rows is -5") != std::string::npos);
  CHECK(message({.churn = 1.5}).find("churn is 1.5") != std::string::npos);
  CHECK(message({.churn = std::numeric_limits<double>::quiet_NaN()}).find("churn is nan") != std::string::npos);
  CHECK(message({.tokens = 1 << 30, .batch = 2}).find("KV rows") != std::string::npos);
}

TEST_CASE("walk: T = 8192 and K = 2048 takes well under a second of one core") {
  const std::clock_t start = std::clock();  // Processor time: other work on the machine does not count.
  const Walk walk = make_walk({.tokens = 8192, .topk = 2048, .churn = 0.05}).value();
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  CHECK(walk.indices.size() == 8192 * 2048);
  // 0.09 s in a release build; the rest is for debug builds and sanitizers.
  CHECK(seconds < 3);
  MESSAGE("walk of 8192 tokens, K = 2048: ", seconds, " s");
}
