#include "store/build_lock.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace kernwright {
namespace {

constexpr double kFirstPause = 0.001;
constexpr double kLongestPause = 0.05;
constexpr double kSecondsBeforeSaying = 1;
constexpr std::string_view kNoEntry = "a build that left no entry";

bool tells_of_failure(std::string_view said) {
  return said.find(kNoEntry) != std::string_view::npos;
}

std::string this_process() {
  std::array<char, 65> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("process {} on {}", ::getpid(), host.front() == '\0' ? "this machine" : host.data());
}

}  // namespace

void BuildLock::done(bool entry_is_there) const noexcept {
  if (!held) return;
  if (!entry_is_there) held->say(kNoEntry);
  if (entry_is_there && after_failure) held->say({});
}

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
      result.after_failure = tells_of_failure(attempt->holder);
      // Taking it wrote our name over that word.
      if (result.after_failure) attempt->lock->say(result.waited ? std::string(kNoEntry) : fmt::format("{}, after {}", owner, kNoEntry));
      if (!result.after_failure || !result.waited) result.held = std::move(attempt->lock);
      return result;
    }
    result.waited = true;
    result.after_failure = tells_of_failure(attempt->holder);
    if (result.after_failure) return result;
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
