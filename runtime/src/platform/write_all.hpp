// Writes all of some bytes.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>

namespace kernwright {

/// False where a write fails: errno says why, and some of the bytes may be written.
inline bool write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace kernwright
