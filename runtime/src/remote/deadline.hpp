// A moment that everything done for one call has to end by.
#pragma once

#include <algorithm>
#include <chrono>

namespace kernwright {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Deadline(Clock::time_point moment) noexcept : moment_(moment) {}
  static Deadline in(Clock::duration time) noexcept { return Deadline(Clock::now() + time); }

  [[nodiscard]] Clock::time_point moment() const noexcept { return moment_; }
  [[nodiscard]] bool passed() const noexcept { return Clock::now() >= moment_; }
  [[nodiscard]] Clock::duration left() const noexcept { return std::max(moment_ - Clock::now(), Clock::duration::zero()); }
  /// The earlier of this one and `time` from now.
  [[nodiscard]] Deadline or_in(Clock::duration time) const noexcept { return Deadline(std::min(moment_, Clock::now() + time)); }

 private:
  Clock::time_point moment_;
};

}  // namespace kernwright
