#include "remote/redis_socket.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <vector>

namespace kernwright {
namespace {

constexpr std::size_t kAddressesTried = 4;

tl::unexpected<Error> failed(std::string_view step, int code) {
  return fail(ErrorCode::io, fmt::format("{}: {}", step, std::generic_category().message(code)));
}

/// Waits until one of the descriptors has what it is asked for; false at the deadline.
Result<bool> wait_for(std::span<pollfd> descriptors, Deadline deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.left()).count();
    const timespec time{.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
    const int ready = ::ppoll(descriptors.data(), descriptors.size(), &time, nullptr);
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) return failed("waiting", errno);
  }
}

struct Attempt {
  FileDescriptor descriptor;
  int problem = 0;  ///< errno; EINPROGRESS: under way.
};

Attempt begin(const SocketAddress& address) {
  Attempt attempt{FileDescriptor(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)), 0};
  if (!attempt.descriptor) {
    attempt.problem = errno;
    return attempt;
  }
  // A command is written whole, so waiting for more to send only delays it. Of no use to a Unix socket, and refused there.
  const int on = 1;
  ::setsockopt(attempt.descriptor.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (::connect(attempt.descriptor.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0)
    attempt.problem = errno;
  if (attempt.problem == EINTR) attempt.problem = EINPROGRESS;  // it goes on all the same
  return attempt;
}

int outcome(const FileDescriptor& descriptor) {
  int problem = 0;
  socklen_t size = sizeof(problem);
  return ::getsockopt(descriptor.get(), SOL_SOCKET, SO_ERROR, &problem, &size) == 0 ? problem : errno;
}

}  // namespace

Result<RedisSocket> RedisSocket::connect(std::span<const SocketAddress> addresses, Deadline deadline) {
  int problem = EADDRNOTAVAIL;
  std::vector<Attempt> attempts;
  const auto settle = [&](Attempt& attempt) {  // true: connected
    if (attempt.problem == 0) return true;
    if (attempt.problem != EINPROGRESS) {
      problem = attempt.problem;
      attempt.descriptor = FileDescriptor();
    }
    return false;
  };
  for (const SocketAddress& address : addresses.first(std::min(addresses.size(), kAddressesTried))) {
    Attempt& attempt = attempts.emplace_back(begin(address));
    if (settle(attempt)) return RedisSocket(std::move(attempt.descriptor));
  }
  for (;;) {
    std::erase_if(attempts, [](const Attempt& attempt) { return !attempt.descriptor; });
    if (attempts.empty()) return failed("connecting", problem);
    std::vector<pollfd> waiting;
    for (const Attempt& attempt : attempts) waiting.push_back({.fd = attempt.descriptor.get(), .events = POLLOUT, .revents = 0});
    const auto ready = wait_for(waiting, deadline);
    if (!ready) return fail(Error(ready.error()));
    if (!*ready) return fail(ErrorCode::timed_out, "connecting: no answer in time");
    for (std::size_t i = 0; i < attempts.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      attempts[i].problem = outcome(attempts[i].descriptor);
      if (settle(attempts[i])) return RedisSocket(std::move(attempts[i].descriptor));
    }
  }
}

Result<> RedisSocket::send(std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    if (deadline.passed()) return fail(ErrorCode::timed_out, "sending: the server took too little in time");
    const ssize_t sent = ::send(descriptor_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return failed("sending", errno);
    pollfd writable{.fd = descriptor_.get(), .events = POLLOUT, .revents = 0};
    if (auto ready = wait_for({&writable, 1}, deadline); !ready) return fail(std::move(ready.error()));
  }
  return {};
}

Result<std::size_t> RedisSocket::receive(std::span<std::byte> into, Deadline deadline) {
  for (;;) {
    // Looked at before every read, so that a peer that sends byte after byte gains nothing.
    if (deadline.passed()) return fail(ErrorCode::timed_out, "waiting for the answer: not all of it came in time");
    const ssize_t got = ::recv(descriptor_.get(), into.data(), into.size(), 0);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got == 0) return fail(ErrorCode::io, "waiting for the answer: the server closed the connection");
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return failed("waiting for the answer", errno);
    pollfd readable{.fd = descriptor_.get(), .events = POLLIN, .revents = 0};
    if (auto ready = wait_for({&readable, 1}, deadline); !ready) return fail(std::move(ready.error()));
  }
}

bool RedisSocket::quiet() const {
  pollfd state{.fd = descriptor_.get(), .events = POLLIN | POLLRDHUP, .revents = 0};
  return ::poll(&state, 1, 0) == 0;
}

}  // namespace kernwright
