// Searches over kernels whose times are made up: what is decided, and what is never measured.
#include "search/contest.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

using namespace kernwright;
using namespace kernwright::tuning;

namespace {

struct Behaviour {
  double ms = 1;
  Outcome outcome = Outcome::measured;
  std::vector<double> rounds;  ///< Its time in rounds of the finals, over and over; empty: ms.
  bool fails_in_finals = false;
};

/// Two shapes, the second twice as long as the first.
class FakeMeasurer final : public Measurer {
 public:
  std::map<std::string, Behaviour> kernels;  ///< By tile; others take 10 ms.
  std::vector<Task> tasks;
  std::vector<std::vector<double>> limits;
  std::set<std::string> expected;

  void expect(std::span<const Task> coming) override {
    for (const Task& task : coming) expected.insert(task.words());
  }
  Result<Measurement> measure(const Task& task, std::span<const double> give_up_ms) override {
    CHECK(expected.contains(task.words()));
    tasks.push_back(task);
    limits.emplace_back(give_up_ms.begin(), give_up_ms.end());
    const auto known = kernels.find(task.tile.text());
    const Behaviour behaviour = known == kernels.end() ? Behaviour{10, Outcome::measured, {}, false} : known->second;
    Measurement made{task, behaviour.outcome, {}, {}};
    if (task.phase != Phase::search && behaviour.fails_in_finals) made.outcome = Outcome::hung;
    double ms = behaviour.ms;
    if (task.phase != Phase::search && !behaviour.rounds.empty()) {
      ms = behaviour.rounds[static_cast<std::size_t>(task.round - 1) % behaviour.rounds.size()];
    }
    if (!give_up_ms.empty() && ms > give_up_ms[0]) made.outcome = Outcome::hopeless;
    if (made.outcome == Outcome::measured) {
      made.shapes = {{"a", {ms}}, {"b", {2 * ms}}};
    } else {
      made.reason = "planted";
    }
    return made;
  }
  [[nodiscard]] std::size_t count(const std::string& tile, Phase phase) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(tasks, [&](const Task& task) { return task.tile.text() == tile && task.phase == phase; }));
  }
};

const Subject kSubject{"demo/scale", Specialisation().set("heads", 8)};
const char* const kDefault = "mma:m16n16s1w4";

std::vector<Tile> eight_tiles() {
  std::vector<Tile> tiles;
  for (const int n : {16, 32, 64, 128}) {
    for (const int warps : {4, 8}) tiles.push_back({"mma", 16, n, 1, warps});
  }
  return tiles;
}

Contest hold(FakeMeasurer& measurer, const ContestOptions& options = {}) {
  auto contest = hold_contest(kSubject, eight_tiles(), *Tile::parse(kDefault), options, measurer);
  REQUIRE(contest);
  return std::move(*contest);
}

std::string winner(const Contest& contest) {
  return contest.tile() == nullptr ? "none" : contest.tile()->text();
}

}  // namespace

TEST_CASE("tuning: the fastest wins, after finals against the next best and the default in changing order") {
  FakeMeasurer measurer;
  measurer.kernels = {{"mma:m16n64s1w8", {4, Outcome::measured, {}, false}}, {"mma:m16n32s1w4", {5, Outcome::measured, {}, false}}};
  const ContestOptions options;
  const Contest contest = hold(measurer, options);
  CHECK(winner(contest) == "mma:m16n64s1w8");
  CHECK(contest.decision.gain == doctest::Approx(2.5));
  CHECK(contest.decision.noise == 0);
  CHECK(contest.search.size() == 8);
  CHECK(contest.finalists.size() == 4);
  CHECK(measurer.count("mma:m16n64s1w8", Phase::finals) == 5);
  CHECK(measurer.count(kDefault, Phase::finals) == 5);
  CHECK(measurer.count(kDefault, Phase::search) == 1);
  CHECK(measurer.tasks.size() <= most_measurements(8, options));
  std::set<std::string> orders;
  for (std::size_t i = 8; i < measurer.tasks.size(); i += 4) {
    std::string order;
    for (std::size_t k = i; k < i + 4; ++k) order += measurer.tasks[k].tile.text() + " ";
    orders.insert(order);
  }
  CHECK(orders.size() > 1);
}

TEST_CASE("tuning: a gain within the noise of either side leaves the default, one beyond it does not") {
  FakeMeasurer noisy_default;
  noisy_default.kernels = {{kDefault, {10, Outcome::measured, {9, 10, 11}, false}}, {"mma:m16n64s1w8", {9, Outcome::measured, {}, false}}};
  const Contest stays = hold(noisy_default);
  CHECK(winner(stays) == kDefault);
  CHECK(stays.decision.gain == 1);
  CHECK(stays.decision.reason.find("no more than the noise") != std::string::npos);

  FakeMeasurer noisy_candidate;
  noisy_candidate.kernels = {{"mma:m16n64s1w8", {8, Outcome::measured, {7, 8, 10}, false}}};
  CHECK(winner(hold(noisy_candidate)) == kDefault);

  FakeMeasurer clear;
  clear.kernels = {{kDefault, {10, Outcome::measured, {9.9, 10, 10.1}, false}},
                   {"mma:m16n64s1w8", {9, Outcome::measured, {8.9, 9, 9.1}, false}}};
  const Contest moves = hold(clear);
  CHECK(winner(moves) == "mma:m16n64s1w8");
  CHECK(moves.decision.noise == doctest::Approx(0.2 / 9));

  // The fastest is too noisy to be believed, the next is not.
  FakeMeasurer second;
  second.kernels = {{"mma:m16n64s1w8", {5, Outcome::measured, {3, 5, 12}, false}}, {"mma:m16n32s1w8", {6, Outcome::measured, {}, false}}};
  CHECK(winner(hold(second)) == "mma:m16n32s1w8");
}

TEST_CASE("tuning: kernels that fail are passed over, in the search and in the finals") {
  FakeMeasurer measurer;
  measurer.kernels = {{"mma:m16n64s1w8", {1, Outcome::wrong, {}, false}},
                      {"mma:m16n64s1w4", {1, Outcome::faulted, {}, false}},
                      {"mma:m16n32s1w8", {2, Outcome::measured, {}, true}},
                      {"mma:m16n32s1w4", {3, Outcome::measured, {}, false}}};
  const Contest contest = hold(measurer);
  CHECK(winner(contest) == "mma:m16n32s1w4");
  CHECK(measurer.count("mma:m16n64s1w8", Phase::finals) == 0);
  CHECK(measurer.count("mma:m16n32s1w8", Phase::finals) == 1);  // not asked for again once it hung
  const auto fell = std::ranges::find(contest.finalists, Tile{"mma", 16, 32, 1, 8}, &Finalist::tile);
  REQUIRE(fell != contest.finalists.end());
  CHECK(fell->failure == "mma:m16n32s1w8 hung: planted");
}

TEST_CASE("tuning: without a default that works the best of the others wins, and where all fail nothing does and the reasons are said") {
  FakeMeasurer measurer;
  measurer.kernels = {{kDefault, {1, Outcome::wrong, {}, false}}, {"mma:m16n64s1w8", {5, Outcome::measured, {}, false}}};
  const Contest contest = hold(measurer);
  CHECK(winner(contest) == "mma:m16n64s1w8");
  CHECK(contest.decision.gain == 1);
  CHECK(contest.decision.reason == "the default failed");

  FakeMeasurer none;
  for (const Tile& tile : eight_tiles()) none.kernels[tile.text()] = {1, tile.warps == 4 ? Outcome::wrong : Outcome::hung, {}, false};
  const Contest failed = hold(none);
  CHECK(failed.tile() == nullptr);
  CHECK(failed.decision.reason.find("4 wrong (first mma:m16n16s1w4: planted); 4 hung (first ") == 0);
  FakeMeasurer later;
  for (const Tile& tile : eight_tiles()) later.kernels[tile.text()] = {1, Outcome::measured, {}, true};
  CHECK(hold(later).tile() == nullptr);
}

TEST_CASE("tuning: a kernel is hopeless by the best one before it, and what is measured first is the default") {
  FakeMeasurer measurer;
  measurer.kernels = {{kDefault, {2, Outcome::measured, {}, false}}};
  ContestOptions options;
  options.hopeless_factor = 4;
  const Contest contest = hold(measurer, options);
  CHECK(measurer.tasks.front().tile.text() == kDefault);
  CHECK(measurer.limits.front().empty());
  CHECK(measurer.limits[1] == std::vector<double>{8, 16});
  CHECK(measurer.limits[8].empty());  // the finals are never cut short
  CHECK(contest.finalists.size() == 1);
  CHECK(winner(contest) == kDefault);
  CHECK(std::ranges::count(contest.search, Outcome::hopeless, &Measurement::outcome) == 7);
}

TEST_CASE("tuning: the same seed asks for the same, another seed for another order") {
  const auto words = [](std::uint64_t seed) {
    FakeMeasurer measurer;
    ContestOptions options;
    options.strategy.seed = seed;
    hold(measurer, options);
    std::string all;
    for (const Task& task : measurer.tasks) all += task.words() + "\n";
    return all;
  };
  CHECK(words(3) == words(3));
  CHECK(words(3) != words(4));
}
