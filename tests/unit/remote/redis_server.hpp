// A real redis-server as a child process, in a folder of its own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fixtures/temporary_folder.hpp"

namespace kernwright::tests {

class RedisServer {
 public:
  /// nullopt, after a message, where none is installed. It listens on a Unix socket and, where asked, on a port of the loopback address.
  static std::optional<RedisServer> start(std::vector<std::string> settings = {}, bool with_port = false);
  RedisServer(RedisServer&& other) noexcept;
  RedisServer& operator=(RedisServer&&) = delete;
  ~RedisServer();

  [[nodiscard]] std::string unix_url() const { return "unix://" + socket().native(); }
  [[nodiscard]] std::string tcp_url() const { return "redis://127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::filesystem::path socket() const { return folder_->path() / "redis.sock"; }

  void kill();     ///< SIGKILL, and waits for its end.
  void restart();  ///< With the same settings; what it held is gone.

  /// One command over the Unix socket, written and read by this class's own few lines; the answer as the server sent it.
  std::string ask(const std::vector<std::string>& words, const std::string& first_say = {}) const;
  /// What the server has under a key.
  std::string get(const std::string& key) const;
  void set(const std::string& key, const std::string& value) const;

 private:
  RedisServer() = default;
  bool launch();
  std::unique_ptr<TemporaryFolder> folder_;
  std::string program_;
  std::vector<std::string> settings_;
  std::uint16_t port_ = 0;
  pid_t child_ = -1;
};

}  // namespace kernwright::tests
