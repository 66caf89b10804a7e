// Stops asking a server that does not serve, so that it costs a bounded time.
#pragma once

#include <cstdint>
#include <mutex>

namespace kernwright {

struct BreakerLimits {
  int failures = 3;            ///< In a row.
  double lost_seconds = 0.15;  ///< What failures took since it last opened, whatever succeeded in between.
  double open_seconds = 30;
};

/// Closed: everybody may ask. Open, after failures in a row or after failures that together took too long: nobody may. After its time one
/// caller may try; where that succeeds the breaker is closed, on probation until the next success: one failure opens it again. Thread-safe;
/// `now` is monotonic seconds.
class CircuitBreaker {
 public:
  explicit CircuitBreaker(BreakerLimits limits) noexcept : limits_(limits) {}

  enum class Permission : std::uint8_t {
    granted,
    trial,    ///< This caller alone: it has to report how it went.
    refused,  ///< Do not ask.
  };
  Permission ask(double now);
  /// ask() without taking the trial.
  [[nodiscard]] bool refuses(double now) const;

  void succeeded();
  /// True where the breaker was closed and is open now, or a trial failed.
  bool failed(double now, double lost_seconds);

 private:
  enum class State : std::uint8_t { closed, open, trying };
  const BreakerLimits limits_;
  mutable std::mutex mutex_;
  State state_ = State::closed;
  int failures_ = 0;
  double lost_seconds_ = 0;
  double open_until_ = 0;
};

}  // namespace kernwright
