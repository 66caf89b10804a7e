#include "platform/spawned_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace kernwright {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> list;
  for (const std::string& text : strings) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

struct SpawnActions {
  posix_spawn_file_actions_t actions;
  SpawnActions() { posix_spawn_file_actions_init(&actions); }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
};
struct SpawnAttributes {
  posix_spawnattr_t attributes;
  SpawnAttributes() { posix_spawnattr_init(&attributes); }
  ~SpawnAttributes() { posix_spawnattr_destroy(&attributes); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
};

ProcessEnd end_of(int status) {
  return WIFEXITED(status) ? ProcessEnd{WEXITSTATUS(status), 0} : ProcessEnd{0, WTERMSIG(status)};
}

}  // namespace

Result<SpawnedProcess> SpawnedProcess::start(const SpawnCommand& command) {
  SpawnActions actions;
  SpawnAttributes attributes;
  if (command.standard_input >= 0) {
    posix_spawn_file_actions_adddup2(&actions.actions, command.standard_input, STDIN_FILENO);
  } else {
    posix_spawn_file_actions_addopen(&actions.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  }
  posix_spawn_file_actions_adddup2(&actions.actions, command.standard_output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions.actions, command.standard_error, STDERR_FILENO);
  if (!command.folder.empty()) posix_spawn_file_actions_addchdir_np(&actions.actions, command.folder.c_str());
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes.attributes, &none);
  posix_spawnattr_setsigdefault(&attributes.attributes, &all);
  posix_spawnattr_setpgroup(&attributes.attributes, 0);
  posix_spawnattr_setflags(&attributes.attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const std::vector<char*> arguments = pointers(command.arguments);
  const std::vector<char*> environment = pointers(command.environment);
  pid_t id = 0;
  const int error =
      posix_spawn(&id, command.program.c_str(), &actions.actions, &attributes.attributes, arguments.data(), environment.data());
  if (error != 0) {
    return fail(error == ENOENT ? ErrorCode::not_found : ErrorCode::io,
                fmt::format("cannot start {}: {}", command.program.string(), std::strerror(error)));
  }
  return SpawnedProcess(id);
}

SpawnedProcess::SpawnedProcess(pid_t id) : id_(id) {
  const long descriptor = syscall(SYS_pidfd_open, id, 0);
  if (descriptor >= 0) ended_ = FileDescriptor(static_cast<int>(descriptor));
}

SpawnedProcess::SpawnedProcess(SpawnedProcess&& other) noexcept
    : id_(other.id_), ended_(std::move(other.ended_)), end_(other.end_), moved_from_(std::exchange(other.moved_from_, true)) {}

SpawnedProcess::~SpawnedProcess() {
  if (!moved_from_) kill_and_wait();
}

ProcessEnd SpawnedProcess::kill_and_wait() {
  if (end_) return *end_;
  ::kill(-id_, SIGKILL);
  ::kill(id_, SIGKILL);
  int status = 0;
  pid_t answer = ::waitpid(id_, &status, 0);
  while (answer < 0 && errno == EINTR) answer = ::waitpid(id_, &status, 0);
  end_ = answer < 0 ? ProcessEnd{} : end_of(status);
  return *end_;
}

std::optional<ProcessEnd> SpawnedProcess::poll_end() {
  if (end_) return end_;
  int status = 0;
  const pid_t answer = ::waitpid(id_, &status, WNOHANG);
  if (answer == 0 || (answer < 0 && errno == EINTR)) return std::nullopt;
  end_ = answer < 0 ? ProcessEnd{} : end_of(status);
  return end_;
}

}  // namespace kernwright
