// A search for one subject's tile: every point once, the best of them again in rounds, and a decision that the noise allows.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernwright/result.hpp"
#include "search/measurement.hpp"
#include "search/strategy.hpp"

namespace kernwright::tuning {

/// Times kernels. One contest at a time calls it.
class Measurer {
 public:
  virtual ~Measurer() = default;
  /// The tasks that come next, in this order, so that their kernels can be compiled ahead.
  virtual void expect(std::span<const Task> tasks) = 0;
  /// A kernel that fails, in whatever way, is a measurement. `give_up_ms`: for each shape the time above which a sample says that the
  /// kernel is hopeless; empty: none is. An error means that the run cannot go on.
  virtual Result<Measurement> measure(const Task& task, std::span<const double> give_up_ms) = 0;
};

struct ContestOptions {
  StrategyOptions strategy;
  std::size_t finalists = 3;   ///< Beside the default.
  int rounds = 5;              ///< Of the finals; at least 2, since one round shows no noise.
  double hopeless_factor = 3;  ///< A kernel that takes so many times the best one's time on a shape is left.
};

/// Something that takes part in the finals, and what came of it.
struct Finalist {
  Subject subject;
  Tile tile;
  std::vector<double> round_ms;  ///< Its score in each round; empty where it failed in one of them.
  double median_ms = 0;
  double noise = 0;          ///< (largest − smallest) / median of the rounds.
  std::string failure;       ///< Not empty: how it failed, and it does not count.
  ClockSummary clocks = {};  ///< Of the device, while its rounds were timed.
};

/// Which finalist won. The default stays unless another one is faster by more than the noise of both.
struct Decision {
  std::optional<std::size_t> winner;  ///< Among the finalists; empty: all failed.
  double gain = 1;                    ///< The default's time over the winner's; 1 where the default won or failed.
  double noise = 0;                   ///< The larger of the default's and the winner's; what the gain had to exceed.
  std::string reason;                 ///< In words.
};
/// `standing`: the default's place; empty: the default failed before. Where none but faster ones within the noise are left, it stays.
Decision decide(std::span<const Finalist> finalists, std::optional<std::size_t> standing);

/// Times the entries in `rounds` rounds, each in a random order of its own, and decides. `finalists` has them filled in.
Result<Decision> play(std::vector<Finalist>& finalists, std::optional<std::size_t> standing, Phase phase, const ContestOptions& options,
                      Measurer& measurer);

struct Contest {
  Subject subject;
  Tile default_tile;
  std::vector<Measurement> search;  ///< In the order in which they were made.
  std::vector<Finalist> finalists;
  Decision decision;
  /// The winner's tile; null where every kernel failed.
  [[nodiscard]] const Tile* tile() const { return decision.winner ? &finalists[*decision.winner].tile : nullptr; }
};
/// `points` holds `default_tile`. Error: as the measurer's.
Result<Contest> hold_contest(const Subject& subject, const std::vector<Tile>& points, const Tile& default_tile,
                             const ContestOptions& options, Measurer& measurer);

/// At most so many measurements does a contest make.
std::size_t most_measurements(std::size_t points, const ContestOptions& options);

}  // namespace kernwright::tuning
