// In which order points are measured, and where coordinate descent ends.
#include "search/strategy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

using namespace kernwright;
using tuning::StrategyKind;
using tuning::StrategyOptions;

namespace {

std::vector<Tile> grid() {
  std::vector<Tile> tiles;
  for (const int m : {16, 32, 64}) {
    for (const int n : {16, 32, 64, 128}) {
      for (const int stages : {1, 2, 3}) {
        for (const int warps : {4, 8}) tiles.push_back({"mma", m, n, stages, warps});
      }
    }
  }
  tiles.push_back({"wgmma", 64, 32, 4, 16});
  tiles.push_back({"wgmma", 64, 32, 5, 16});
  return tiles;
}

struct Walked {
  std::vector<std::size_t> order;
  std::map<std::size_t, double> scores;
};

/// Runs a search to its end, checking that nothing is handed out twice.
Walked walk(const std::vector<Tile>& tiles, std::size_t start, const StrategyOptions& options,
            const std::function<double(const Tile&)>& time) {
  Walked walked;
  const auto strategy = tuning::make_strategy(tiles, start, options);
  const auto score = [&](std::size_t point) {
    const auto known = walked.scores.find(point);
    return known == walked.scores.end() ? std::numeric_limits<double>::infinity() : known->second;
  };
  for (auto batch = strategy->next(score); !batch.empty(); batch = strategy->next(score)) {
    for (const std::size_t point : batch) {
      CHECK(walked.scores.emplace(point, time(tiles[point])).second);
      walked.order.push_back(point);
    }
  }
  CHECK(walked.order.size() <= strategy->most());
  CHECK(strategy->next(score).empty());
  return walked;
}

/// A bowl: every axis has one best value, whatever the others are.
double bowl(const Tile& tile) {
  return 1 + std::abs(std::log2(tile.block_m / 32.0)) + std::abs(std::log2(tile.block_n / 64.0)) + std::abs(tile.stages - 3) +
         (tile.warps == 8 ? 0 : 1) + (tile.variant == "mma" ? 0 : 10);
}

}  // namespace

TEST_CASE("tuning: exhaustive measures every point once, the default first, in the seed's order") {
  const auto tiles = grid();
  const StrategyOptions options{StrategyKind::exhaustive, std::nullopt, 7};
  const auto first = walk(tiles, 5, options, bowl).order;
  CHECK(first.size() == tiles.size());
  CHECK(std::set<std::size_t>(first.begin(), first.end()).size() == tiles.size());
  CHECK(first.front() == 5);
  CHECK(walk(tiles, 5, options, bowl).order == first);
  CHECK(walk(tiles, 5, {StrategyKind::exhaustive, std::nullopt, 8}, bowl).order != first);
  CHECK_FALSE(std::ranges::is_sorted(first));
}

TEST_CASE("tuning: random draws its budget without repetition, and the same seed draws the same") {
  const auto tiles = grid();
  const auto order = walk(tiles, 0, {StrategyKind::random, 9, 3}, bowl).order;
  CHECK(order.size() == 9);
  CHECK(order.front() == 0);
  CHECK(std::set<std::size_t>(order.begin(), order.end()).size() == 9);
  CHECK(walk(tiles, 0, {StrategyKind::random, 9, 3}, bowl).order == order);
  CHECK(walk(tiles, 0, {StrategyKind::random, 9, 4}, bowl).order != order);
  CHECK(walk(tiles, 0, {StrategyKind::random, std::nullopt, 3}, bowl).order.size() == tuning::kRandomBudget);
  CHECK(walk(tiles, 0, {StrategyKind::random, 1000, 3}, bowl).order.size() == tiles.size());
}

TEST_CASE("tuning: coordinate descent finds the bottom of a bowl from every start and with every seed, in fewer points than there are") {
  const auto tiles = grid();
  const auto bottom = static_cast<std::size_t>(std::ranges::find(tiles, Tile{"mma", 32, 64, 3, 8}) - tiles.begin());
  for (std::size_t start = 0; start < tiles.size(); start += 5) {
    for (const std::uint64_t seed : {1U, 2U, 3U}) {
      const auto walked = walk(tiles, start, {StrategyKind::descent, std::nullopt, seed}, bowl);
      CHECK(walked.order.front() == start);
      CHECK(walked.scores.contains(bottom));
      CHECK(walked.order.size() < tiles.size() / 2);
    }
  }
  const auto again = walk(tiles, 3, {StrategyKind::descent, std::nullopt, 2}, bowl).order;
  CHECK(walk(tiles, 3, {StrategyKind::descent, std::nullopt, 2}, bowl).order == again);
}

TEST_CASE("tuning: coordinate descent goes to another variant where that is better, passes failures, and keeps to its budget") {
  const auto tiles = grid();
  const auto prefers_wgmma = [](const Tile& tile) { return tile.variant == "wgmma" ? 0.5 + 0.1 * (5 - tile.stages) : bowl(tile); };
  const auto best = static_cast<std::size_t>(std::ranges::find(tiles, Tile{"wgmma", 64, 32, 5, 16}) - tiles.begin());
  CHECK(walk(tiles, 0, {StrategyKind::descent, std::nullopt, 1}, prefers_wgmma).scores.contains(best));
  const auto failing = [](const Tile& tile) { return tile.stages == 2 ? std::numeric_limits<double>::infinity() : bowl(tile); };
  const auto bottom = static_cast<std::size_t>(std::ranges::find(tiles, Tile{"mma", 32, 64, 3, 8}) - tiles.begin());
  CHECK(walk(tiles, 2, {StrategyKind::descent, std::nullopt, 1}, failing).scores.contains(bottom));
  CHECK(walk(tiles, 0, {StrategyKind::descent, 4, 1}, bowl).order.size() == 4);
  CHECK(walk({tiles[0]}, 0, {StrategyKind::descent, std::nullopt, 1}, bowl).order.size() == 1);
}

TEST_CASE("tuning: a strategy's word is one of three") {
  CHECK(*tuning::parse_strategy("descent") == StrategyKind::descent);
  const auto unknown = tuning::parse_strategy("greedy");
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().code == ErrorCode::invalid_argument);
  CHECK(unknown.error().message == "--strategy greedy: legal are exhaustive, random, descent");
}
