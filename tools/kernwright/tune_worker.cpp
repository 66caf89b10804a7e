#include "tune_worker.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "console.hpp"
#include "platform/file_system.hpp"
#include "platform/write_all.hpp"
#include "search/request_queue.hpp"
#include "search/worker_measurer.hpp"
#include "tuning_bench.hpp"

namespace kernwright::tool {
namespace {

using tuning::Json;
using tuning::WorkerLines;

/// Lines to the parent, on the descriptor that was standard output. What a tile prints itself must not stand among them: from here on it
/// goes to standard error.
class Answers {
 public:
  Answers() : descriptor_(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)) { ::dup2(STDERR_FILENO, STDOUT_FILENO); }

  void say(const std::string& line) const {
    // A parent that is gone reads nothing: the reading thread ends the process.
    [[maybe_unused]] const bool written = write_all(descriptor_, as_bytes(line + "\n"));
  }

 private:
  int descriptor_;  // open until the process ends
};

template <class SayStage>
Result<TuningBench> open_bench(const std::string& first_line, const SayStage& say_stage) {
  auto json = tuning::parse_line(first_line);
  if (!json) return fail(std::move(json.error()));
  auto set_up = set_up_of(*json);
  if (!set_up) return fail(std::move(set_up.error()));
  OutputOptions quiet;
  quiet.quiet = true;
  RuntimeOptions options = runtime_options(quiet, set_up->templates);
  options.store = set_up->store;
  auto runtime = Runtime::create(std::move(options));
  if (!runtime) return fail(std::move(runtime.error()));
  return TuningBench::open(*runtime, *set_up, say_stage);
}

}  // namespace

Json json_of(const WorkerSetUp& set_up) {
  return {{"backend", set_up.device.backend == BackendKind::host ? "host" : "cuda"},
          {"ordinal", set_up.device.ordinal},
          {"store", set_up.store.string()},
          {"templates", set_up.templates.string()},
          {"references", set_up.references.string()},
          {"family", set_up.family},
          {"bench", set_up.bench},
          {"seed", set_up.seed},
          {"warm_ups", set_up.warm_ups},
          {"repetitions", set_up.repetitions}};
}

Result<WorkerSetUp> set_up_of(const Json& json) {
  WorkerSetUp set_up;
  try {
    set_up.device = json.at("backend") == "host" ? DeviceId::host() : DeviceId::cuda(json.at("ordinal").get<int>());
    set_up.store = json.at("store").get<std::string>();
    set_up.templates = json.at("templates").get<std::string>();
    set_up.references = json.at("references").get<std::string>();
    set_up.family = json.at("family").get<std::string>();
    set_up.bench = json.at("bench");
    set_up.seed = json.at("seed").get<std::uint64_t>();
    set_up.warm_ups = json.at("warm_ups").get<int>();
    set_up.repetitions = json.at("repetitions").get<int>();
  } catch (const Json::exception& problem) {
    return fail(ErrorCode::malformed, fmt::format("a worker's set-up: {}", problem.what()));
  }
  return set_up;
}

ExitCode tune_worker() {
  const Answers answers;
  const auto say = [&](const std::string& line) { answers.say(line); };
  const auto say_stage = [&](std::string_view what) { answers.say(WorkerLines::stage(what)); };
  tuning::RequestQueue requests(STDIN_FILENO);
  auto bench = open_bench(requests.next(), say_stage);
  if (!bench) {
    say(WorkerLines::fatal(bench.error()));
    return ExitCode::unable;
  }
  say(WorkerLines::ready());
  for (;;) {
    auto request = tuning::parse_request(requests.next());
    if (!request) {
      say(WorkerLines::fatal(request.error()));
      return ExitCode::unable;
    }
    auto measured = bench->measure(request->task, request->give_up_ms, say_stage);
    if (!measured) {
      say(WorkerLines::fatal(measured.error()));
      return ExitCode::unable;
    }
    // After a device fault every call on the context fails: the next kernel gets another process.
    const bool last = measured->outcome == tuning::Outcome::faulted;
    say(WorkerLines::answer(*measured, last));
    if (last) return ExitCode::done;
  }
}

}  // namespace kernwright::tool
