#include "search/worker_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <system_error>

#include "platform/read_available.hpp"

namespace kernwright::tuning {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::size_t kKeptErrors = 2000;         // of what a worker complained last
constexpr std::size_t kLongestLine = 64U << 20U;  // a worker that says more without a line's end is out of its mind

struct Pipe {
  FileDescriptor reading, writing;
};
Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return fail(ErrorCode::io, fmt::format("cannot make a pipe to a worker: {}", std::generic_category().message(errno)));
  }
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

bool drain(int descriptor, std::string& text) {
  return read_available(descriptor, [&](std::string_view piece) { text.append(piece); });
}

std::vector<std::string> own_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return entries;
}

std::string words_of(const ProcessEnd& end) {
  if (end.signal == 0) return fmt::format("its process ended with exit code {}", end.exit_code);
  const char* const name = ::sigabbrev_np(end.signal);
  return fmt::format("its process was ended by {}{}", name == nullptr ? "signal " : "SIG",
                     name == nullptr ? std::to_string(end.signal) : std::string(name));
}

}  // namespace

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::start(const WorkerCommand& command) {
  auto input = make_pipe();
  if (!input) return fail(std::move(input.error()));
  auto output = make_pipe();
  if (!output) return fail(std::move(output.error()));
  auto errors = make_pipe();
  if (!errors) return fail(std::move(errors.error()));
  SpawnCommand spawn{command.program,      {command.program.string()}, own_environment(),    {},
                     input->reading.get(), output->writing.get(),      errors->writing.get()};
  spawn.arguments.insert(spawn.arguments.end(), command.arguments.begin(), command.arguments.end());
  auto process = SpawnedProcess::start(spawn);
  if (!process) return fail(std::move(process.error()));
  for (const int descriptor : {output->reading.get(), errors->reading.get()}) ::fcntl(descriptor, F_SETFL, O_NONBLOCK);
  return std::unique_ptr<WorkerProcess>(
      new WorkerProcess(std::move(*process), std::move(input->writing), std::move(output->reading), std::move(errors->reading)));
}

Result<> WorkerProcess::send(std::string_view line) {
  const std::string text = std::string(line) + "\n";
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t count = ::write(input_.get(), rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(ErrorCode::io, fmt::format("a worker no longer reads: {}", std::generic_category().message(errno)));
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

std::string WorkerProcess::last_words() const {
  std::string words = complained_;
  std::ranges::replace(words, '\n', ' ');
  const std::size_t end = words.find_last_not_of(' ');
  words.resize(end == std::string::npos ? 0 : end + 1);
  return words.empty() ? "" : "; it had said: " + words;
}

WorkerProcess::Answer WorkerProcess::receive(double seconds) {
  const auto deadline = Steady::now() + std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(seconds));
  bool open = true;
  for (;;) {
    // In this order: what it said before its end is read before the end is spoken of.
    const auto ended = process_.poll_end();
    if (open) open = drain(output_.get(), said_);
    drain(errors_.get(), complained_);
    if (complained_.size() > kKeptErrors) complained_.erase(0, complained_.size() - kKeptErrors);
    if (const std::size_t end = said_.find('\n'); end != std::string::npos) {
      Answer answer{Answer::Kind::line, said_.substr(0, end)};
      said_.erase(0, end + 1);
      return answer;
    }
    if (ended) return {Answer::Kind::ended, words_of(*ended) + last_words()};
    const double left = std::chrono::duration<double, std::milli>(deadline - Steady::now()).count();
    if (left <= 0 || said_.size() > kLongestLine) {
      process_.kill_and_wait();
      return {Answer::Kind::silent, fmt::format("nothing was heard of it for {:g} s, and its process was killed{}", seconds, last_words())};
    }
    std::array<pollfd, 3> wait{
        {{open ? output_.get() : -1, POLLIN, 0}, {errors_.get(), POLLIN, 0}, {process_.end_descriptor(), POLLIN, 0}}};
    const bool told = open && process_.end_descriptor() >= 0;
    ::poll(wait.data(), wait.size(), static_cast<int>(std::ceil(std::min(left, told ? 60'000.0 : 5.0))));
  }
}

}  // namespace kernwright::tuning
