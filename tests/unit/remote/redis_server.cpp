#include "unit/remote/redis_server.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>

namespace kernwright::tests {
namespace {

/// The program of any of the names on PATH.
std::string find_program(std::initializer_list<std::string_view> names) {
  const char* path = std::getenv("PATH");
  for (const std::string_view name : names) {
    std::string rest = path == nullptr ? "" : path;
    while (!rest.empty()) {
      const std::size_t end = rest.find(':');
      const auto candidate = std::filesystem::path(rest.substr(0, end)) / name;
      if (::access(candidate.c_str(), X_OK) == 0) return candidate.native();
      rest = end == std::string::npos ? "" : rest.substr(end + 1);
    }
  }
  return {};
}

std::uint16_t free_port() {
  const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const bool bound = ::bind(probe, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     ::getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  ::close(probe);
  if (!bound) throw std::runtime_error("no port on loopback is free");
  return ntohs(address.sin_port);
}

std::string encoded(const std::vector<std::string>& words) {
  std::string text = fmt::format("*{}\r\n", words.size());
  for (const std::string& word : words) text += fmt::format("${}\r\n{}\r\n", word.size(), word);
  return text;
}

}  // namespace

std::optional<RedisServer> RedisServer::start(std::vector<std::string> settings, bool with_port) {
  RedisServer server;
  // Debian's redis-tools has the server's program under another name; it goes by what it is called as.
  server.program_ = find_program({"redis-server", "redis-check-rdb"});
  if (server.program_.empty()) {
    MESSAGE("skipped: neither redis-server nor redis-check-rdb on PATH (Debian: apt-get install redis-tools)");
    return std::nullopt;
  }
  server.folder_ = std::make_unique<TemporaryFolder>();
  server.settings_ = std::move(settings);
  // Between the look for a free port and the server's taking it another process may take it.
  for (int attempt = 0; attempt < 5; ++attempt) {
    if (with_port) server.port_ = free_port();
    if (server.launch()) return server;
  }
  throw std::runtime_error("redis-server does not start: " + read_file(server.folder_->path() / "log"));
}

RedisServer::RedisServer(RedisServer&& other) noexcept
    : folder_(std::move(other.folder_)),
      program_(std::move(other.program_)),
      settings_(std::move(other.settings_)),
      port_(other.port_),
      child_(std::exchange(other.child_, -1)) {}

RedisServer::~RedisServer() {
  kill();
}

void RedisServer::kill() {
  if (child_ < 0) return;
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
  child_ = -1;
}

void RedisServer::restart() {
  kill();
  if (!launch()) throw std::runtime_error("redis-server does not start again: " + read_file(folder_->path() / "log"));
}

bool RedisServer::launch() {
  std::filesystem::remove(socket());
  std::vector<std::string> words{"redis-server",
                                 "--save",
                                 "",
                                 "--appendonly",
                                 "no",
                                 "--port",
                                 std::to_string(port_),
                                 "--bind",
                                 "127.0.0.1",
                                 "--unixsocket",
                                 socket().native(),
                                 "--dir",
                                 folder_->path().native(),
                                 "--logfile",
                                 (folder_->path() / "log").native()};
  words.insert(words.end(), settings_.begin(), settings_.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  if (::posix_spawn(&child_, program_.c_str(), nullptr, nullptr, arguments.data(), environ) != 0) return false;
  for (int i = 0; i < 10'000; ++i) {
    if (::waitpid(child_, nullptr, WNOHANG) == child_) {
      child_ = -1;
      return false;
    }
    const std::string answer = ask({"PING"});
    if (answer.starts_with("+PONG") || answer.starts_with("-NOAUTH")) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  kill();
  return false;
}

std::string RedisServer::ask(const std::vector<std::string>& words, const std::string& first_say) const {
  const int connection = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket().c_str(), sizeof(address.sun_path) - 1);
  std::string answer;
  if (::connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string text = first_say + encoded(words) + encoded({"QUIT"});  // the server closes: what came until then is the answer
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t now = ::send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (now <= 0) break;
      sent += static_cast<std::size_t>(now);
    }
    char bytes[65536];
    for (ssize_t got = 0; (got = ::read(connection, bytes, sizeof(bytes))) > 0;) answer.append(bytes, static_cast<std::size_t>(got));
  }
  ::close(connection);
  return answer.ends_with("+OK\r\n") ? answer.substr(0, answer.size() - 5) : answer;
}

std::string RedisServer::get(const std::string& key) const {
  const std::string answer = ask({"GET", key});
  if (!answer.starts_with('$') || answer.starts_with("$-1")) return {};
  const std::size_t start = answer.find("\r\n") + 2;
  return answer.substr(start, answer.size() - start - 2);
}

void RedisServer::set(const std::string& key, const std::string& value) const {
  const std::string answer = ask({"SET", key, value});
  if (answer != "+OK\r\n") throw std::runtime_error("SET: " + answer);
}

}  // namespace kernwright::tests
