// Wall and monotonic time and waiting behind a seam, so that tests can move them.
#pragma once

#include <cstdint>
#include <memory>

namespace kernwright {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::int64_t unix_seconds() const = 0;
  virtual double monotonic_seconds() const = 0;
  virtual void sleep(double seconds) = 0;  ///< May end early.
  static std::shared_ptr<Clock> system();
};

}  // namespace kernwright
