#include "robustness/process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>

#include "fixtures/temporary_folder.hpp"

namespace kernwright::robustness {
namespace {

using Steady = std::chrono::steady_clock;

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!changes.contains(text.substr(0, text.find('=')))) merged.push_back(text);
  }
  for (const auto& [name, value] : changes) merged.push_back(name + "=" + value);
  return merged;
}

}  // namespace

Barrier::Barrier() {
  // O_CLOEXEC: a child that had the writing end would keep all the others waiting.
  if (::pipe2(ends_, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
}
Barrier::~Barrier() {
  open();
  ::close(ends_[0]);
}
void Barrier::open() noexcept {
  if (ends_[1] >= 0) ::close(std::exchange(ends_[1], -1));
}

Process::Process(const std::filesystem::path& program, const ProcessOptions& options) : output_(options.output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (options.input >= 0) {
    posix_spawn_file_actions_adddup2(&actions, options.input, STDIN_FILENO);
  } else {
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  }
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  std::vector<std::string> words{program.string()};
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> environment = merged_environment(options.environment);
  const int problem = ::posix_spawn(&id_, program.c_str(), &actions, nullptr, pointers(words).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (problem != 0) throw std::runtime_error("cannot start " + program.string() + ": " + std::strerror(problem));
  running_ = true;
}

Process::Process(Process&& other) noexcept
    : id_(other.id_), running_(std::exchange(other.running_, false)), status_(other.status_), output_(std::move(other.output_)) {}

Process::~Process() {
  if (!running_) return;
  signal(SIGKILL);
  ::waitpid(id_, &status_, 0);
}

void Process::signal(int number) const {
  if (running_) ::kill(id_, number);
}

bool Process::ended() {
  if (!running_) return true;
  const pid_t answer = ::waitpid(id_, &status_, WNOHANG);
  if (answer == id_ || (answer < 0 && errno != EINTR)) running_ = false;
  return !running_;
}

int Process::wait() {
  const auto deadline = Steady::now() + std::chrono::minutes(4);
  while (!ended()) {
    if (Steady::now() > deadline) signal(SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return status_;
}

std::string Process::output() const {
  return tests::read_file(output_);
}

bool wait_until(const std::function<bool()>& condition) {
  const auto deadline = Steady::now() + std::chrono::minutes(2);
  while (!condition()) {
    if (Steady::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace kernwright::robustness
