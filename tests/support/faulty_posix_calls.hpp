// System calls that fail or fall short at will.
#pragma once

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>

#include "platform/posix_calls.hpp"

namespace kernwright::tests {

/// `failing` names the call that answers -1 with `code`: open, read, write, fsync, close, rename, mkdir. After a failed close the
/// descriptor is closed all the same, as on Linux. Not thread-safe.
class FaultyPosixCalls final : public PosixCalls {
 public:
  std::string failing;
  int code = 0;
  std::size_t longest_write = SIZE_MAX;  ///< Longer ones are cut short.
  std::size_t longest_read = SIZE_MAX;
  std::size_t writes_before_failure = 0;  ///< Writes that succeed before `failing` == "write" begins.
  int interruptions = 0;                  ///< Calls of open, read, write and fsync that answer EINTR first.
  int interrupted = 0;                    ///< How many did.

  int open(const char* path, int flags, mode_t mode) override {
    return fails("open") || interrupt() ? -1 : PosixCalls::open(path, flags, mode);
  }
  ssize_t read(int descriptor, void* bytes, std::size_t size) override {
    return fails("read") || interrupt() ? -1 : PosixCalls::read(descriptor, bytes, std::min(size, longest_read));
  }
  ssize_t write(int descriptor, const void* bytes, std::size_t size) override {
    if (interrupt()) return -1;
    if (writes_before_failure > 0) {
      --writes_before_failure;
    } else if (fails("write")) {
      return -1;
    }
    return PosixCalls::write(descriptor, bytes, std::min(size, longest_write));
  }
  int fsync(int descriptor) override { return fails("fsync") || interrupt() ? -1 : PosixCalls::fsync(descriptor); }
  int close(int descriptor) override {
    const int outcome = PosixCalls::close(descriptor);
    return fails("close") ? -1 : outcome;
  }
  int rename(const char* from, const char* to) override { return fails("rename") ? -1 : PosixCalls::rename(from, to); }
  int mkdir(const char* path, mode_t mode) override { return fails("mkdir") ? -1 : PosixCalls::mkdir(path, mode); }

 private:
  bool fails(std::string_view call) {
    if (call != failing) return false;
    errno = code;
    return true;
  }
  bool interrupt() {
    if (interrupted >= interruptions) return false;
    ++interrupted;
    errno = EINTR;
    return true;
  }
};

}  // namespace kernwright::tests
