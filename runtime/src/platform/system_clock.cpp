#include <chrono>
#include <thread>

#include "platform/clock.hpp"

namespace kernwright {
namespace {

class SystemClock final : public Clock {
 public:
  std::int64_t unix_seconds() const override {
    return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  }
  double monotonic_seconds() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  void sleep(double seconds) override { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }
};

}  // namespace

std::shared_ptr<Clock> Clock::system() {
  return std::make_shared<SystemClock>();
}

}  // namespace kernwright
