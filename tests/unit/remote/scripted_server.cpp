#include "unit/remote/scripted_server.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>

namespace kernwright::tests {
namespace {

constexpr int kPollMilliseconds = 5;

/// A socket bound to a free port of the loopback address.
int bound_socket(std::uint16_t& port) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (descriptor < 0 || ::bind(descriptor, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no socket on the loopback address");
  }
  port = ntohs(address.sin_port);
  return descriptor;
}

bool readable(int descriptor) {
  pollfd waiting{.fd = descriptor, .events = POLLIN | POLLRDHUP, .revents = 0};
  return ::poll(&waiting, 1, kPollMilliseconds) > 0;
}

}  // namespace

bool Peer::fill() {
  while (!stopping_) {
    if (!readable(descriptor_)) continue;
    char bytes[65536];
    const ssize_t got = ::read(descriptor_, bytes, sizeof(bytes));
    if (got <= 0) return false;
    received_.append(bytes, static_cast<std::size_t>(got));
    return true;
  }
  return false;
}

std::string Peer::line() {
  std::size_t end = 0;
  while ((end = received_.find("\r\n")) == std::string::npos) {
    if (!fill()) return {};
  }
  std::string text = received_.substr(0, end);
  received_.erase(0, end + 2);
  return text;
}

std::string Peer::take(std::size_t size) {
  while (received_.size() < size) {
    if (!fill()) return {};
  }
  std::string text = received_.substr(0, size);
  received_.erase(0, size);
  return text;
}

std::vector<std::string> Peer::command() {
  const std::string head = line();
  if (!head.starts_with('*')) return {};
  std::vector<std::string> words;
  for (int left = std::stoi(head.substr(1)); left > 0; --left) {
    const std::string size = line();
    if (!size.starts_with('$')) return {};
    const std::string word = take(std::stoul(size.substr(1)) + 2);
    if (word.size() < 2) return {};
    words.push_back(word.substr(0, word.size() - 2));
  }
  return words;
}

bool Peer::write(std::string_view text) {
  while (!text.empty() && !stopping_) {
    const ssize_t sent = ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      text.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      pollfd waiting{.fd = descriptor_, .events = POLLOUT, .revents = 0};
      ::poll(&waiting, 1, kPollMilliseconds);
    } else {
      return false;
    }
  }
  return text.empty();
}

bool Peer::pause_milliseconds(int milliseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (!stopping_ && std::chrono::steady_clock::now() < end) {
    pollfd waiting{.fd = descriptor_, .events = POLLRDHUP, .revents = 0};
    if (::poll(&waiting, 1, 1) > 0) return false;
  }
  return !stopping_;
}

void Peer::wait_until_client_goes() {
  while (pause_milliseconds(100)) {
  }
}

ScriptedServer::ScriptedServer(Serve serve) : serve_(std::move(serve)), listener_(bound_socket(port_)) {
  ::listen(listener_, 64);
  accepting_ = std::thread([this] {
    while (!stopping_) {
      if (!readable(listener_)) continue;
      const int descriptor = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (descriptor < 0) continue;
      ++connections_;
      const std::lock_guard lock(mutex_);
      threads_.emplace_back([this, descriptor] {
        Peer peer(descriptor, stopping_);
        serve_(peer);
        ::close(descriptor);
      });
    }
  });
}

ScriptedServer::~ScriptedServer() {
  stopping_ = true;
  accepting_.join();
  for (std::thread& thread : threads_) thread.join();
  ::close(listener_);
}

BlackHole::BlackHole() {
  const int listener = bound_socket(port_);
  descriptors_.push_back(listener);
  ::listen(listener, 0);
  // Two more than the queue holds.
  for (int i = 0; i < 3; ++i) {
    const int filler = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port_);
    // It is under way, or refused for good: either way the queue is full.
    static_cast<void>(::connect(filler, reinterpret_cast<const sockaddr*>(&address), sizeof(address)));
    descriptors_.push_back(filler);
  }
}

BlackHole::~BlackHole() {
  for (const int descriptor : descriptors_) ::close(descriptor);
}

ClosedPort::ClosedPort() : descriptor_(bound_socket(port_)) {}

ClosedPort::~ClosedPort() {
  ::close(descriptor_);
}

}  // namespace kernwright::tests
