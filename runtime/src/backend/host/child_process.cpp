#include "backend/host/child_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>

#include "backend/host/file_descriptor.hpp"

namespace kernwright::host {
namespace {

using Clock = std::chrono::steady_clock;

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

/// A process group that is killed unless it was seen to end.
class Child {
 public:
  explicit Child(pid_t id) : id_(id) {
    const long descriptor = syscall(SYS_pidfd_open, id, 0);  // Linux 5.3; without it the end is looked for every few milliseconds
    if (descriptor >= 0) ended_ = FileDescriptor(static_cast<int>(descriptor));
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (running_) kill_and_wait();
  }

  void kill_and_wait() {
    ::kill(-id_, SIGKILL);
    ::kill(id_, SIGKILL);
    int status = 0;
    while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    running_ = false;
  }
  /// The exit code once it has ended. Where the embedding program reaps children by itself the code is lost: 0 then, and the caller sees
  /// by its output whether it worked.
  std::optional<int> poll_end() {
    int status = 0;
    const pid_t answer = ::waitpid(id_, &status, WNOHANG);
    if (answer == 0 || (answer < 0 && errno == EINTR)) return std::nullopt;
    running_ = false;
    if (answer < 0) return 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  [[nodiscard]] int end_descriptor() const noexcept { return ended_.get(); }

 private:
  pid_t id_;
  FileDescriptor ended_;
  bool running_ = true;
};

/// Reads what is there. False at the end of the stream.
bool drain(int descriptor, std::size_t limit, ChildOutcome& outcome) {
  std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN;
    if (count == 0) return false;
    const std::size_t room = limit - outcome.output.size();
    outcome.truncated |= static_cast<std::size_t>(count) > room;
    outcome.output.append(buffer.data(), std::min(room, static_cast<std::size_t>(count)));
  }
}

Result<pid_t> spawn(const ChildCommand& command, int output) {
  SpawnActions actions;
  SpawnAttributes attributes;
  posix_spawn_file_actions_addopen(&actions.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions.actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions.actions, output, STDERR_FILENO);
  posix_spawn_file_actions_addchdir_np(&actions.actions, command.folder.c_str());
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
  return id;
}

}  // namespace

Result<ChildOutcome> run_child(const ChildCommand& command) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return fail(ErrorCode::io, fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  const FileDescriptor reading(ends[0]);
  FileDescriptor writing(ends[1]);
  fcntl(reading.get(), F_SETFL, O_NONBLOCK);
  const auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(command.time_limit_seconds));
  auto id = spawn(command, writing.get());
  if (!id) return fail(std::move(id.error()));
  Child child(*id);
  writing = FileDescriptor();

  ChildOutcome outcome;
  bool open = true;
  for (;;) {
    const auto ended = child.poll_end();
    if (open) open = drain(reading.get(), command.output_limit.count, outcome);
    if (ended) {
      outcome.exit_code = *ended;
      return outcome;
    }
    const double left = std::chrono::duration<double, std::milli>(deadline - Clock::now()).count();
    if (left <= 0) {
      child.kill_and_wait();
      drain(reading.get(), command.output_limit.count, outcome);
      return fail(ErrorCode::timed_out, fmt::format("{} was stopped after {} s{}{}", command.program.string(), command.time_limit_seconds,
                                                    outcome.output.empty() ? "" : "; it had said:\n", outcome.output));
    }
    std::array<pollfd, 2> wait{{{open ? reading.get() : -1, POLLIN, 0}, {child.end_descriptor(), POLLIN, 0}}};
    const double longest = child.end_descriptor() >= 0 ? 60'000.0 : 5.0;
    ::poll(wait.data(), wait.size(), static_cast<int>(std::ceil(std::min(left, longest))));
  }
}

}  // namespace kernwright::host
