// What the parts of the POSIX file system share: an owned descriptor, retries, error text.
#pragma once

#include <sys/types.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "kernwright/result.hpp"
#include "platform/file_system.hpp"
#include "platform/posix_calls.hpp"

namespace kernwright {

/// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor(PosixCalls& calls, int number) noexcept : calls_(calls), number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }

  [[nodiscard]] int number() const noexcept { return number_; }
  [[nodiscard]] int release() noexcept { return std::exchange(number_, -1); }
  /// errno of close, 0 where it succeeded. EINTR counts as closed: on Linux the descriptor is gone either way.
  int close() noexcept {
    if (number_ < 0) return 0;
    const int outcome = calls_.close(std::exchange(number_, -1));
    return outcome == 0 || errno == EINTR ? 0 : errno;
  }

 private:
  PosixCalls& calls_;
  int number_;
};

/// Calls again where a signal interrupted. Any call can be: a file system in user space answers EINTR to what POSIX never lets wait. One
/// that does so for ever must not hold the caller for ever.
template <class Call>
auto retried(Call call) {
  constexpr int kAttempts = 100;
  const auto interrupted = [](auto outcome) {
    if constexpr (std::is_pointer_v<decltype(outcome)>) {
      return outcome == nullptr && errno == EINTR;
    } else {
      return outcome < 0 && errno == EINTR;
    }
  };
  auto outcome = call();
  for (int attempt = 1; attempt < kAttempts && interrupted(outcome); ++attempt) outcome = call();
  return outcome;
}

/// `io`, or not_found for ENOENT, with the path, the operation, the system's text for `code` and what to do about it.
tl::unexpected<Error> file_error(std::string_view operation, const std::filesystem::path& path, int code);
/// "a folder", "a FIFO", …
std::string_view kind_of(mode_t mode);

/// FileSystem::try_lock over these calls.
Result<FileSystem::LockAttempt> try_lock_range(const std::shared_ptr<PosixCalls>& calls, const std::filesystem::path& file,
                                               std::uint32_t slot, std::string_view owner);

}  // namespace kernwright
