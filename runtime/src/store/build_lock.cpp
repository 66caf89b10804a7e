#include "store/build_lock.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace kernwright {
namespace {

constexpr double kFirstPause = 0.001;
constexpr double kLongestPause = 0.05;
constexpr double kSecondsBeforeSaying = 1;

std::string this_process() {
  std::array<char, 65> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("process {} on {}", ::getpid(), host.front() == '\0' ? "this machine" : host.data());
}

}  // namespace

BuildLock lock_build(Store& store, const EntryKey& key, const std::string& what, double limit_seconds, Clock& clock, const Logger& logger) {
  BuildLock result;
  const std::string owner = this_process();
  const double started = clock.monotonic_seconds();
  bool said = false;
  double pause = kFirstPause;
  for (;;) {
    auto attempt = store.try_lock_build(key, owner);
    if (!attempt) {
      result.problem = std::move(attempt.error().message);
      return result;
    }
    if (attempt->lock) {
      if (result.waited && attempt->holder == kNoEntry) {
        attempt->lock->say(kNoEntry);  // for the next one
        return result;
      }
      result.held = std::move(attempt->lock);
      return result;
    }
    result.waited = true;
    const std::string holder = attempt->holder.empty() ? "another process" : attempt->holder;
    const double waited = clock.monotonic_seconds() - started;
    if (waited >= limit_seconds) {
      result.problem = fmt::format("{} was still {} after {:.0f} s", holder, what, waited);
      return result;
    }
    if (waited >= kSecondsBeforeSaying && !said) {
      logger(LogLevel::info, fmt::format("waiting for {}, which is {} into {}", holder, what, store.folder().string()));
      said = true;
    }
    clock.sleep(std::min(pause, limit_seconds - waited));
    pause = std::min(pause * 2, kLongestPause);
  }
}

}  // namespace kernwright
