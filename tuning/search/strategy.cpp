#include "search/strategy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "search/shuffle.hpp"

namespace kernwright::tuning {
namespace {

/// All points or the first few of a random order, in one batch, the start in front.
class Drawn final : public Strategy {
 public:
  Drawn(std::size_t points, std::size_t start, std::size_t budget, std::uint64_t seed) : order_(points) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    shuffle(order_, seed);
    const auto place = std::ranges::find(order_, start);
    std::rotate(order_.begin(), place, place + 1);
    order_.resize(std::min(points, std::max<std::size_t>(budget, 1)));
  }
  std::vector<std::size_t> next(const Score&) override {
    if (std::exchange(handed_out_, true)) return {};
    return order_;
  }
  [[nodiscard]] std::size_t most() const override { return order_.size(); }

 private:
  std::vector<std::size_t> order_;
  bool handed_out_ = false;
};

enum class Axis : std::uint8_t { variant, block_m, block_n, stages, warps };

std::size_t differences(const Tile& a, const Tile& b) {
  return static_cast<std::size_t>(a.variant != b.variant) + static_cast<std::size_t>(a.block_m != b.block_m) +
         static_cast<std::size_t>(a.block_n != b.block_n) + static_cast<std::size_t>(a.stages != b.stages) +
         static_cast<std::size_t>(a.warps != b.warps);
}

int& coordinate(Tile& tile, Axis axis) {
  switch (axis) {
    case Axis::block_m: return tile.block_m;
    case Axis::block_n: return tile.block_n;
    case Axis::stages: return tile.stages;
    case Axis::variant:
    case Axis::warps: break;
  }
  return tile.warps;
}

class Descent final : public Strategy {
 public:
  Descent(std::vector<Tile> points, std::size_t start, std::size_t budget, std::uint64_t seed)
      : points_(std::move(points)),
        current_(start),
        budget_(std::min(points_.size(), std::max<std::size_t>(budget, 1))),
        measured_(points_.size(), false) {
    shuffle(axes_, seed);
  }

  std::vector<std::size_t> next(const Score& score) override {
    if (handed_out_ == 0) return hand_out({current_});
    for (;;) {
      if (line_) move_along(score);
      if (axes_without_gain_ >= axes_.size() || handed_out_ >= budget_) return {};
      line_ = neighbours(axes_[axis_]);
      axis_ = (axis_ + 1) % axes_.size();
      std::vector<std::size_t> fresh;
      std::ranges::copy_if(*line_, std::back_inserter(fresh), [&](std::size_t point) { return !measured_[point]; });
      if (!fresh.empty()) return hand_out(std::move(fresh));
    }
  }
  [[nodiscard]] std::size_t most() const override { return budget_; }

 private:
  /// To the best point of the line that was looked at last, if one is better than where we stand.
  void move_along(const Score& score) {
    const auto best = std::ranges::min_element(*line_, {}, [&](std::size_t point) { return score(point); });
    const bool gains = best != line_->end() && score(*best) < score(current_);
    const std::string before = points_[current_].variant;
    if (gains) current_ = *best;
    // Where it moved along an axis, that has been seen whole, and every other one is worth another look. Another variant is no move along
    // an axis: from there the nearest of the old one may be a point not seen yet.
    const bool seen_whole = points_[current_].variant == before;
    axes_without_gain_ = !gains ? axes_without_gain_ + 1 : seen_whole ? 1 : 0;
    line_.reset();
  }

  /// The points that differ from the current one along the axis alone. No two variants need to share a point of the other axes: of each
  /// other variant it is the one with the fewest differences, the first of these.
  [[nodiscard]] std::vector<std::size_t> neighbours(Axis axis) const {
    const Tile& here = points_[current_];
    std::vector<std::size_t> places;
    if (axis != Axis::variant) {
      for (std::size_t i = 0; i < points_.size(); ++i) {
        if (i == current_) continue;
        Tile there = points_[i];
        Tile moved = here;
        coordinate(moved, axis) = coordinate(there, axis);
        if (moved == there) places.push_back(i);
      }
      return places;
    }
    std::vector<std::size_t> nearest;  // one a variant
    for (std::size_t i = 0; i < points_.size(); ++i) {
      if (points_[i].variant == here.variant) continue;
      const auto known = std::ranges::find(nearest, points_[i].variant, [&](std::size_t place) { return points_[place].variant; });
      if (known == nearest.end()) {
        nearest.push_back(i);
      } else if (differences(points_[i], here) < differences(points_[*known], here)) {
        *known = i;
      }
    }
    return nearest;
  }

  std::vector<std::size_t> hand_out(std::vector<std::size_t> batch) {
    batch.resize(std::min(batch.size(), budget_ - handed_out_));
    for (const std::size_t point : batch) measured_[point] = true;
    handed_out_ += batch.size();
    return batch;
  }

  std::vector<Tile> points_;
  std::size_t current_;
  std::size_t budget_;
  std::vector<bool> measured_;
  std::array<Axis, 5> axes_{Axis::variant, Axis::block_m, Axis::block_n, Axis::stages, Axis::warps};
  std::optional<std::vector<std::size_t>> line_;  ///< The points that are being measured along an axis, those of earlier lines among them.
  std::size_t axis_ = 0, axes_without_gain_ = 0, handed_out_ = 0;
};

}  // namespace

std::string_view to_string(StrategyKind kind) noexcept {
  switch (kind) {
    case StrategyKind::exhaustive: return "exhaustive";
    case StrategyKind::random: return "random";
    case StrategyKind::descent: return "descent";
  }
  return "exhaustive";
}

Result<StrategyKind> parse_strategy(std::string_view word) {
  for (const StrategyKind kind : {StrategyKind::exhaustive, StrategyKind::random, StrategyKind::descent}) {
    if (word == to_string(kind)) return kind;
  }
  return fail(ErrorCode::invalid_argument, fmt::format("--strategy {}: legal are exhaustive, random, descent", word));
}

std::unique_ptr<Strategy> make_strategy(std::vector<Tile> points, std::size_t start, const StrategyOptions& options) {
  const std::size_t all = points.size();
  switch (options.kind) {
    case StrategyKind::random: return std::make_unique<Drawn>(all, start, options.budget.value_or(kRandomBudget), options.seed);
    case StrategyKind::descent: return std::make_unique<Descent>(std::move(points), start, options.budget.value_or(all), options.seed);
    case StrategyKind::exhaustive: break;
  }
  return std::make_unique<Drawn>(all, start, options.budget.value_or(all), options.seed);
}

}  // namespace kernwright::tuning
