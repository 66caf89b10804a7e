#include "search/contest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "search/shuffle.hpp"
#include "support/spread.hpp"

namespace kernwright::tuning {
namespace {

/// For each shape the time above which nothing is worth measuring: a multiple of the best median so far.
std::vector<double> give_up_times(std::span<const Measurement> search, double factor) {
  std::vector<double> best;
  for (const Measurement& each : search) {
    if (each.outcome != Outcome::measured) continue;
    best.resize(each.shapes.size(), 0);
    for (std::size_t i = 0; i < each.shapes.size(); ++i) {
      const double median = support::spread(each.shapes[i].samples_ms).median;
      best[i] = best[i] == 0 ? median : std::min(best[i], median);
    }
  }
  for (double& time : best) time *= factor;
  return best;
}

/// A compiler's log is long; the journal has it whole.
std::string first_line(const std::string& reason) {
  constexpr std::size_t kMost = 200;
  return reason.substr(0, std::min(kMost, reason.find('\n')));
}

/// "3 wrong (first: …), 2 hung (first: …)" of everything that failed.
std::string failures_of(std::span<const Measurement> search) {
  std::map<Outcome, std::pair<std::size_t, std::string>> kinds;
  for (const Measurement& each : search) {
    if (each.outcome == Outcome::measured) continue;
    auto& [count, first] = kinds[each.outcome];
    if (count++ == 0) first = fmt::format("{}: {}", each.task.tile.text(), first_line(each.reason));
  }
  std::string text;
  for (const auto& [outcome, kind] : kinds) {
    text += fmt::format("{}{} {} ({}{})", text.empty() ? "" : "; ", kind.first, to_string(outcome), kind.first > 1 ? "first " : "",
                        kind.second);
  }
  return text;
}

/// The best so many of what was measured, and the default in front of them where that was measured too.
std::vector<Finalist> finalists_of(const Contest& contest, std::size_t most) {
  std::vector<const Measurement*> right;
  for (const Measurement& each : contest.search) {
    if (each.outcome == Outcome::measured) right.push_back(&each);
  }
  std::ranges::stable_sort(right, {}, [](const Measurement* each) { return score(*each); });
  std::vector<Finalist> finalists;
  const auto enter = [&](const Measurement& each) { finalists.push_back({each.task.subject, each.task.tile, {}, 0, 0, {}}); };
  for (const Measurement* each : right) {
    if (each->task.tile == contest.default_tile) enter(*each);
  }
  std::size_t entered = 0;
  for (const Measurement* each : right) {
    if (each->task.tile == contest.default_tile || entered >= most) continue;
    enter(*each);
    ++entered;
  }
  return finalists;
}

}  // namespace

Decision decide(std::span<const Finalist> finalists, std::optional<std::size_t> standing) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < finalists.size(); ++i) {
    if (finalists[i].failure.empty()) order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return finalists[i].median_ms; });
  Decision decision;
  if (order.empty()) {
    decision.reason = finalists.empty() ? "nothing was measured" : "every finalist failed: " + finalists.front().failure;
    return decision;
  }
  const bool stands = standing && finalists[*standing].failure.empty();
  if (!stands) {
    decision.winner = order.front();
    decision.noise = finalists[order.front()].noise;
    decision.reason = "the default failed";
    return decision;
  }
  const Finalist& held = finalists[*standing];
  for (const std::size_t i : order) {
    if (i == *standing) break;
    const double gain = held.median_ms / finalists[i].median_ms;
    const double noise = std::max(held.noise, finalists[i].noise);
    if (gain - 1 <= noise) continue;
    decision = {i, gain, noise, fmt::format("{:.2f} times as fast as the default, the noise being {:.1f}%", gain, 100 * noise)};
    return decision;
  }
  decision.winner = standing;
  decision.noise = held.noise;
  decision.reason = order.front() == *standing
                        ? "nothing is faster than the default"
                        : fmt::format("{} is faster than the default by no more than the noise", finalists[order.front()].tile.text());
  return decision;
}

Result<Decision> play(std::vector<Finalist>& finalists, std::optional<std::size_t> standing, Phase phase, const ContestOptions& options,
                      Measurer& measurer) {
  std::vector<std::size_t> order(finalists.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (int round = 1; round <= options.rounds; ++round) {
    shuffle(order, support::stream_seed(options.strategy.seed, static_cast<std::uint64_t>(round)));
    std::vector<Task> tasks;
    for (const std::size_t i : order) tasks.push_back({finalists[i].subject, finalists[i].tile, phase, round});
    measurer.expect(tasks);
    for (std::size_t k = 0; k < order.size(); ++k) {
      Finalist& finalist = finalists[order[k]];
      if (!finalist.failure.empty()) continue;
      const auto measured = measurer.measure(tasks[k], {});
      if (!measured) return fail(Error(measured.error()));
      if (measured->outcome != Outcome::measured) {
        finalist.failure = fmt::format("{} {}: {}", finalist.tile.text(), to_string(measured->outcome), measured->reason);
        finalist.round_ms.clear();
        continue;
      }
      finalist.round_ms.push_back(score(*measured));
      add_clocks(finalist.clocks, *measured);
    }
  }
  for (Finalist& finalist : finalists) {
    if (!finalist.failure.empty()) continue;
    const support::Spread rounds = support::spread(finalist.round_ms);
    finalist.median_ms = rounds.median;
    finalist.noise = rounds.median > 0 ? (rounds.largest - rounds.smallest) / rounds.median : 0;
  }
  return decide(finalists, standing);
}

Result<Contest> hold_contest(const Subject& subject, const std::vector<Tile>& points, const Tile& default_tile,
                             const ContestOptions& options, Measurer& measurer) {
  Contest contest{subject, default_tile, {}, {}, {}};
  const auto start = static_cast<std::size_t>(std::ranges::find(points, default_tile) - points.begin());
  const auto strategy = make_strategy(points, start, options.strategy);
  const auto score_of = [&](std::size_t point) {
    const auto known =
        std::ranges::find(contest.search, points[point], [](const Measurement& each) -> const Tile& { return each.task.tile; });
    return known == contest.search.end() ? score(Measurement{}) : score(*known);
  };
  for (auto batch = strategy->next(score_of); !batch.empty(); batch = strategy->next(score_of)) {
    std::vector<Task> tasks;
    for (const std::size_t point : batch) tasks.push_back({subject, points[point], Phase::search, 0});
    measurer.expect(tasks);
    for (const Task& task : tasks) {
      auto measured = measurer.measure(task, give_up_times(contest.search, options.hopeless_factor));
      if (!measured) return fail(std::move(measured.error()));
      contest.search.push_back(std::move(*measured));
    }
  }
  contest.finalists = finalists_of(contest, options.finalists);
  if (contest.finalists.empty()) {
    contest.decision.reason = failures_of(contest.search);
    return contest;
  }
  const bool standing = contest.finalists.front().tile == default_tile;
  auto decision = play(contest.finalists, standing ? std::optional<std::size_t>(0) : std::nullopt, Phase::finals, options, measurer);
  if (!decision) return fail(std::move(decision.error()));
  contest.decision = std::move(*decision);
  return contest;
}

std::size_t most_measurements(std::size_t points, const ContestOptions& options) {
  const StrategyOptions& strategy = options.strategy;
  const std::size_t budget = strategy.budget.value_or(strategy.kind == StrategyKind::random ? kRandomBudget : points);
  const std::size_t search = std::min(points, budget);
  return search + std::min(search, options.finalists + 1) * static_cast<std::size_t>(options.rounds);
}

}  // namespace kernwright::tuning
