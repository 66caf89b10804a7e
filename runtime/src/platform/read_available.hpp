// Reads what a pipe or socket holds just now.
#pragma once

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <string_view>

namespace kernwright {

/// Hands what is there to `take(std::string_view)`, in pieces, until a read would block. False at the end of the stream and where it cannot
/// be read. The descriptor must be non-blocking.
template <class Take>
bool read_available(int descriptor, Take take) {
  std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN;
    if (count == 0) return false;
    take(std::string_view(buffer.data(), static_cast<std::size_t>(count)));
  }
}

}  // namespace kernwright
