// A server that misbehaves as a test says: plain sockets, a thread a connection.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace kernwright::tests {

/// One connection, as the server sees it. Every wait ends when the server is destroyed.
class Peer {
 public:
  Peer(int descriptor, const std::atomic<bool>& stopping) : descriptor_(descriptor), stopping_(stopping) {}
  /// The words of the next command; empty: the client has gone, or the server ends.
  std::vector<std::string> command();
  /// False where the client has gone.
  bool write(std::string_view text);
  void wait_until_client_goes();
  /// False where the client has gone meanwhile.
  bool pause_milliseconds(int milliseconds);

 private:
  bool fill();
  std::string line();
  std::string take(std::size_t size);
  int descriptor_;
  const std::atomic<bool>& stopping_;
  std::string received_;
};

class ScriptedServer {
 public:
  using Serve = std::function<void(Peer&)>;  ///< The connection is closed when it returns.
  explicit ScriptedServer(Serve serve);
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;
  ~ScriptedServer();

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] int connections() const { return connections_; }

 private:
  Serve serve_;
  std::uint16_t port_ = 0;  // before the listener, which fills it
  int listener_ = -1;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> connections_ = 0;
  std::mutex mutex_;
  std::vector<std::thread> threads_;
  std::thread accepting_;
};

/// A port of the loopback address that answers nothing at all: its queue of connections is full, so the kernel drops every further one, as
/// a firewall does.
class BlackHole {
 public:
  BlackHole();
  BlackHole(const BlackHole&) = delete;
  BlackHole& operator=(const BlackHole&) = delete;
  ~BlackHole();
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }

 private:
  std::uint16_t port_ = 0;
  std::vector<int> descriptors_;
};

/// A port that nobody listens on, kept from others.
class ClosedPort {
 public:
  ClosedPort();
  ClosedPort(const ClosedPort&) = delete;
  ClosedPort& operator=(const ClosedPort&) = delete;
  ~ClosedPort();
  [[nodiscard]] std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }

 private:
  std::uint16_t port_ = 0;
  int descriptor_ = -1;
};

}  // namespace kernwright::tests
