// Wall and monotonic time behind a seam, so that tests can move it.
#pragma once

#include <cstdint>
#include <memory>

namespace kernwright {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::int64_t unix_seconds() const = 0;
  virtual double monotonic_seconds() const = 0;
  static std::shared_ptr<Clock> system();
};

}  // namespace kernwright
