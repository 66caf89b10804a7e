#include "backend/host/child_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>

#include "platform/file_descriptor.hpp"
#include "platform/read_available.hpp"
#include "platform/spawned_process.hpp"

namespace kernwright::host {
namespace {

using Clock = std::chrono::steady_clock;

/// read_available of the child's output; what is beyond the limit is dropped.
bool drain(int descriptor, std::size_t limit, ChildOutcome& outcome) {
  return read_available(descriptor, [&](std::string_view piece) {
    const std::size_t room = limit - outcome.output.size();
    outcome.truncated |= piece.size() > room;
    outcome.output.append(piece.substr(0, room));
  });
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
  auto child =
      SpawnedProcess::start({command.program, command.arguments, command.environment, command.folder, -1, writing.get(), writing.get()});
  if (!child) return fail(std::move(child.error()));
  writing = FileDescriptor();

  ChildOutcome outcome;
  bool open = true;
  for (;;) {
    const auto ended = child->poll_end();
    if (open) open = drain(reading.get(), command.output_limit.count, outcome);
    if (ended) {
      outcome.exit_code = ended->signal == 0 ? ended->exit_code : 128 + ended->signal;
      return outcome;
    }
    const double left = std::chrono::duration<double, std::milli>(deadline - Clock::now()).count();
    if (left <= 0) {
      child->kill_and_wait();
      drain(reading.get(), command.output_limit.count, outcome);
      return fail(ErrorCode::timed_out, fmt::format("{} was stopped after {} s{}{}", command.program.string(), command.time_limit_seconds,
                                                    outcome.output.empty() ? "" : "; it had said:\n", outcome.output));
    }
    std::array<pollfd, 2> wait{{{open ? reading.get() : -1, POLLIN, 0}, {child->end_descriptor(), POLLIN, 0}}};
    const double longest = child->end_descriptor() >= 0 ? 60'000.0 : 5.0;
    ::poll(wait.data(), wait.size(), static_cast<int>(std::ceil(std::min(left, longest))));
  }
}

}  // namespace kernwright::host
