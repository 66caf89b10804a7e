// Ctrl-C and SIGTERM as a flag, so that work in hand can be finished.
#pragma once

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

namespace kernwright::tool {

/// While it lives, the first SIGINT or SIGTERM sets the flag, and a second one ends the program as it would have done without this object.
/// Make it before other threads, which inherit that the signals are blocked. A signal that the program was started to ignore is left alone.
class Interruption {
 public:
  /// `told` is called on a thread of the object's own when the first signal has come.
  explicit Interruption(std::function<void()> told);
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  ~Interruption();

  [[nodiscard]] const std::atomic<bool>& flag() const noexcept { return flag_; }
  /// The first signal's number; 0: none came.
  [[nodiscard]] int signal() const noexcept { return signal_; }

 private:
  void watch(const std::stop_token& stop);

  std::function<void()> told_;
  std::atomic<bool> flag_{false};
  std::atomic<int> signal_{0};
  sigset_t watched_{};
  sigset_t before_{};
  std::jthread thread_;
};

}  // namespace kernwright::tool
