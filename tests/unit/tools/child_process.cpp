#include "unit/tools/child_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <stdexcept>
#include <thread>

#include "fixtures/temporary_folder.hpp"

namespace kernwright::tests {
namespace {

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!changes.contains(text.substr(0, text.find('=')))) merged.push_back(text);
  }
  for (const auto& [name, value] : changes) {
    if (!value.empty()) merged.push_back(name + "=" + value);
  }
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

ChildResult run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments, const ChildOptions& options) {
  const TemporaryFolder folder;
  const std::string out_path = (folder.path() / "out").string();
  const std::string err_path = (folder.path() / "err").string();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err_path.c_str(), O_WRONLY | O_CREAT, 0600);
  int pipe_ends[2] = {-1, -1};
  switch (options.stdout_is) {
    case ChildOptions::Stdout::captured:
      posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out_path.c_str(), O_WRONLY | O_CREAT, 0600);
      break;
    case ChildOptions::Stdout::closed: posix_spawn_file_actions_addclose(&actions, STDOUT_FILENO); break;
    case ChildOptions::Stdout::full: posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/full", O_WRONLY, 0); break;
    case ChildOptions::Stdout::unread_pipe:
      if (::pipe2(pipe_ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
      posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
      ::close(pipe_ends[0]);
      break;
  }
  std::vector<std::string> words{program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> environment = merged_environment(options.environment);
  // What this process was told to ignore (a shell's background jobs ignore SIGINT) is not the child's affair.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child = -1;
  const int problem = ::posix_spawn(&child, program.c_str(), &actions, &attributes, pointers(words).data(), pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (pipe_ends[1] >= 0) ::close(pipe_ends[1]);
  if (problem != 0) throw std::runtime_error("posix_spawn of " + program.string() + " failed");

  int status = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(4);
  bool killed = false;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (!killed && std::chrono::steady_clock::now() > deadline) {
      ::kill(child, SIGKILL);
      killed = true;
    }
    if (options.while_running) options.while_running(child);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ChildResult result;
  result.exited = WIFEXITED(status) && !killed;
  if (result.exited) result.exit_code = WEXITSTATUS(status);
  result.out = read_file(out_path);
  result.err = read_file(err_path);
  return result;
}

}  // namespace kernwright::tests
