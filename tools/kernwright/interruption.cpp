#include "interruption.hpp"

#include <pthread.h>

#include <ctime>
#include <utility>

namespace kernwright::tool {

Interruption::Interruption(std::function<void()> told) : told_(std::move(told)) {
  sigemptyset(&watched_);
  for (const int number : {SIGINT, SIGTERM}) {
    struct sigaction now {};
    const bool ignored = ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
    if (!ignored) sigaddset(&watched_, number);
  }
  ::pthread_sigmask(SIG_BLOCK, &watched_, &before_);
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

Interruption::~Interruption() {
  thread_.request_stop();
  thread_.join();
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Interruption::watch(const std::stop_token& stop) {
  constexpr timespec kWait{0, 50'000'000};  // how late a stop may be seen
  while (!stop.stop_requested()) {
    const int number = ::sigtimedwait(&watched_, nullptr, &kWait);
    if (number <= 0) continue;
    if (flag_) {
      struct sigaction fatal {};
      fatal.sa_handler = SIG_DFL;
      ::sigaction(number, &fatal, nullptr);
      ::raise(number);
      ::pthread_sigmask(SIG_UNBLOCK, &watched_, nullptr);
      continue;
    }
    signal_ = number;
    flag_ = true;
    told_();
  }
}

}  // namespace kernwright::tool
