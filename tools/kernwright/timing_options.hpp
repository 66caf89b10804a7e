// How often something is timed, and when it is left.
#pragma once

#include <algorithm>
#include <vector>

#include "search/clock_watch.hpp"

namespace kernwright::tool {

struct TimingOptions {
  int warm_ups = 3;
  int repetitions = 15;
  double give_up_ms = 0;                ///< Not 0: left as soon as two runs were made and both took longer.
  tuning::ClockWatch* clock = nullptr;  ///< Sampled before the first repetition and behind each one.
};

/// Times of runs, warm-ups included, until they are hopeless: two were made, and even the fastest took longer than the limit.
class HopelessRuns {
 public:
  explicit HopelessRuns(double limit) noexcept : limit_(limit) {}
  /// Whether more runs are of no use. Never where the limit is 0.
  bool add(double time) {
    constexpr std::size_t kRunsBeforeGivingUp = 2;
    times_.push_back(time);
    return limit_ > 0 && times_.size() >= kRunsBeforeGivingUp && std::ranges::min(times_) > limit_;
  }
  [[nodiscard]] const std::vector<double>& times() const noexcept { return times_; }

 private:
  double limit_;
  std::vector<double> times_;
};

}  // namespace kernwright::tool
