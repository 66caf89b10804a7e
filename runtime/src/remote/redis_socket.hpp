// A stream socket whose every operation ends by a deadline.
#pragma once

#include <cstddef>
#include <span>

#include "kernwright/result.hpp"
#include "platform/file_descriptor.hpp"
#include "remote/deadline.hpp"
#include "remote/endpoint_resolver.hpp"

namespace kernwright {

/// Non-blocking, closed on exec, raises no SIGPIPE. Errors are io with the system's reason, and timed_out at the deadline. Not thread-safe.
class RedisSocket {
 public:
  /// Tries the first few addresses side by side and keeps the first that answers: a route that swallows packets costs nothing where another
  /// works.
  static Result<RedisSocket> connect(std::span<const SocketAddress> addresses, Deadline deadline);

  Result<> send(std::span<const std::byte> bytes, Deadline deadline);
  /// At least one byte; io where the peer has closed.
  Result<std::size_t> receive(std::span<std::byte> into, Deadline deadline);
  /// Whether the peer has neither closed nor sent anything that nobody read: only then can the next answer be the next question's.
  [[nodiscard]] bool quiet() const;

 private:
  explicit RedisSocket(FileDescriptor descriptor) noexcept : descriptor_(std::move(descriptor)) {}
  FileDescriptor descriptor_;
};

}  // namespace kernwright
