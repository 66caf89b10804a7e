// Owns a file descriptor, over the system calls that tests can make fail.
#pragma once

#include <cerrno>
#include <memory>
#include <utility>

#include "platform/posix_calls.hpp"

namespace kernwright::support {

class Descriptor {
 public:
  Descriptor(std::shared_ptr<PosixCalls> calls, int number) noexcept : calls_(std::move(calls)), number_(number) {}
  Descriptor(Descriptor&& other) noexcept : calls_(std::move(other.calls_)), number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { close(); }

  [[nodiscard]] int number() const noexcept { return number_; }
  /// errno of close, 0 where it succeeded. EINTR counts as closed: on Linux the descriptor is gone either way.
  int close() noexcept {
    if (number_ < 0) return 0;
    return calls_->close(std::exchange(number_, -1)) == 0 || errno == EINTR ? 0 : errno;
  }

 private:
  std::shared_ptr<PosixCalls> calls_;
  int number_;
};

/// Calls again while a signal interrupts.
template <class Call>
auto retried(Call call) {
  auto outcome = call();
  while (outcome < 0 && errno == EINTR) outcome = call();
  return outcome;
}

}  // namespace kernwright::support
