// In which order the points of a search space are measured.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "kernwright/result.hpp"
#include "kernwright/tile.hpp"

namespace kernwright::tuning {

enum class StrategyKind : std::uint8_t {
  exhaustive,  ///< Every point, in a random order.
  random,      ///< As many as the budget, drawn without repetition.
  descent,     ///< Coordinate descent from the default: one axis after the other, to the best point along it, until no axis helps.
};
std::string_view to_string(StrategyKind kind) noexcept;  ///< "exhaustive", "random", "descent"
/// invalid_argument with the legal words.
Result<StrategyKind> parse_strategy(std::string_view word);

/// Points a random search draws where no budget is given.
inline constexpr std::size_t kRandomBudget = 24;

struct StrategyOptions {
  StrategyKind kind = StrategyKind::exhaustive;
  std::optional<std::size_t>
      budget;  ///< The most points that are measured, the default among them. Empty: kRandomBudget for random, else no bound.
  std::uint64_t seed = 1;
};

/// Hands out points, by their place, in batches. Deterministic: the same points, options and scores give the same batches on every machine.
class Strategy {
 public:
  /// The score of a point: less is better, infinity where it failed or was not measured.
  using Score = std::function<double(std::size_t)>;
  virtual ~Strategy() = default;
  /// The points to measure next, none twice in a run; `score` knows all that were handed out before. Empty: the search is over.
  virtual std::vector<std::size_t> next(const Score& score) = 0;
  /// At most so many points are handed out.
  [[nodiscard]] virtual std::size_t most() const = 0;
};

/// `start` is the place of the default, which is the first point handed out. There is at least one point.
std::unique_ptr<Strategy> make_strategy(std::vector<Tile> points, std::size_t start, const StrategyOptions& options);

}  // namespace kernwright::tuning
