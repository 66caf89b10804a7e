// File systems that refuse what they are asked, as system calls.
#pragma once

#include <fcntl.h>

#include <atomic>

#include "fixtures/interposed_posix_calls.hpp"

namespace kernwright::robustness {

using tests::CallDetails;
using tests::SystemCall;

/// No lock is to be had, as on an NFS mount without its lock daemon.
class NoLocks final : public tests::InterposedPosixCalls {
 public:
  int before(const CallDetails& details) override {
    return details.call == SystemCall::flock || details.call == SystemCall::lock_range ? ENOLCK : 0;
  }
};

/// So many bytes can be written, then there is no space: not for data, not for a file or a folder either. What is written in its place
/// (pwrite: the lock file) needs room once and is then overwritten. Thread-safe.
class FullDisk final : public tests::InterposedPosixCalls {
 public:
  explicit FullDisk(std::size_t bytes) : left_(bytes) {}
  int before(const CallDetails& details) override {
    const bool makes = details.call == SystemCall::mkdir || (details.call == SystemCall::open && (details.flags & O_CREAT) != 0);
    const bool fills = details.call == SystemCall::write || details.call == SystemCall::pwrite;
    if (!makes && !fills) return 0;
    const bool in_place = details.call == SystemCall::pwrite;
    if (in_place && has_room_in_place_.load()) return 0;
    for (std::size_t left = left_.load();;) {
      if (left == 0 || left < details.size) return ENOSPC;
      if (left_.compare_exchange_weak(left, left - details.size)) break;
    }
    if (in_place) has_room_in_place_ = true;
    return 0;
  }

 private:
  std::atomic<std::size_t> left_;
  std::atomic<bool> has_room_in_place_ = false;
};

/// Mounted read-only.
class ReadOnlyDisk final : public tests::InterposedPosixCalls {
 public:
  int before(const CallDetails& details) override {
    switch (details.call) {
      case SystemCall::open: return (details.flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0 ? EROFS : 0;
      case SystemCall::mkdir:
      case SystemCall::unlink:
      case SystemCall::rmdir:
      case SystemCall::rename:
      case SystemCall::utimensat: return EROFS;
      default: return 0;
    }
  }
};

}  // namespace kernwright::robustness
