// What the first prepare of sparse MLA prefill costs in a new process, after the device's context exists: with an empty store (NVRTC is
// opened and compiles, its own cache off) and from a warm one. Each sample is a fresh process: the program executes itself.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "kernwright/sparse_mla_prefill.hpp"
#include "measurement.hpp"

namespace {

using namespace kernwright;
using namespace kernwright::bench;
namespace fs = std::filesystem;

constexpr int kHeads = 8;
constexpr int kGroup = 8;

/// What a child measured.
struct Sample {
  double milliseconds = 0;
  double compiles = 0;
  double store_hits = 0;
};

/// The child: context first, then one timed create(). Prints the sample.
int run_child(const std::string& target, int group, const std::string& store) {
  RuntimeOptions options;
  options.store = store;
  const Result<Runtime> runtime = Runtime::create(options);
  if (!runtime) return report(runtime.error());
  const DeviceId device = target == "cuda" ? DeviceId::cuda(0) : DeviceId::host();
  // An allocation and a stream make the context, which any engine has long before.
  const auto buffer = runtime->allocate(device, Bytes{1 << 20});
  if (!buffer) return report(buffer.error());
  const auto stream = runtime->create_stream(device);
  if (!stream) return report(stream.error());

  SparseMlaPrefillOptions op;
  op.device = device;
  op.heads = kHeads;
  op.max_topk = 2048;
  op.group_size = group;
  const auto start = std::chrono::steady_clock::now();
  const auto made = SparseMlaPrefill::create(*runtime, op);
  const double milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (!made) return report(made.error());
  const Counters counters = runtime->counters();
  fmt::print("{} {} {}\n", milliseconds, counters.compiles, counters.store_hits);
  return 0;
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t count = ::read(descriptor, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
}

Result<Sample> run_in_new_process(const std::string& target, int group, const fs::path& store) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(ErrorCode::io, "a pipe could not be made");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  std::array<std::string, 5> words{"prepare_cost", "--child", target, std::to_string(group), store.string()};
  std::array<char*, 6> pointers{words[0].data(), words[1].data(), words[2].data(), words[3].data(), words[4].data(), nullptr};
  pid_t child = -1;
  const int problem = ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  const std::string text = problem == 0 ? read_all(ends[0]) : std::string();
  ::close(ends[0]);
  int status = 0;
  if (problem != 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return fail(ErrorCode::internal, "the measuring process failed; what it said stands above");
  }
  Sample sample;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  for (double* value : {&sample.milliseconds, &sample.compiles, &sample.store_hits}) {
    while (at != end && *at == ' ') ++at;
    const auto [rest, bad] = std::from_chars(at, end, *value);
    if (bad != std::errc()) return fail(ErrorCode::malformed, fmt::format("the measuring process said '{}'", text));
    at = rest;
  }
  return sample;
}

struct Scenario {
  std::string name;
  int group = 0;
  bool warm = false;
};

/// One scenario's samples into the measurement.
Result<> measure(const Scenario& scenario, const Options& options, int repetitions, const fs::path& folder, Measurement& measurement) {
  std::vector<double> milliseconds;
  Sample last;
  const fs::path warm_store = folder / (scenario.name + "_store");
  if (scenario.warm) {
    // Fills the store; its time belongs to nobody.
    if (auto filled = run_in_new_process(options.target, scenario.group, warm_store); !filled) return fail(std::move(filled.error()));
  }
  for (int i = 0; i < repetitions; ++i) {
    const fs::path store = scenario.warm ? warm_store : folder / fmt::format("{}_{}", scenario.name, i);
    const Result<Sample> sample = run_in_new_process(options.target, scenario.group, store);
    if (!sample) return fail(Error(sample.error()));
    // A cold sample that compiled nothing, or a warm one that did, measured something else.
    if ((sample->compiles > 0) == scenario.warm) {
      return fail(ErrorCode::internal, fmt::format("{}: {} compiles, {} hits", scenario.name, sample->compiles, sample->store_hits));
    }
    milliseconds.push_back(sample->milliseconds);
    last = *sample;
  }
  const Spread s = spread(milliseconds);
  measurement.figures[scenario.name] = {{"median_ms", s.median}, {"min_ms", s.smallest},      {"max_ms", s.largest},
                                        {"p95_ms", s.p95},       {"compiles", last.compiles}, {"store_hits", last.store_hits}};
  measurement.samples[scenario.name + "_ms"] = milliseconds;
  return {};
}

int run(int argc, char** argv) {
  const Result<Options> options =
      parse_options(argc, argv, "prepare_cost: the first prepare of sparse MLA prefill in a new process, cold and warm");
  if (!options) return report(options.error());
  std::string name = (fs::temp_directory_path() / "kernwright-bench-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) return report({ErrorCode::io, "no temporary folder could be made", {}});
  const fs::path folder = name;

  // The driver's cache of what it assembles from PTX would not matter here, and must not.
  ::setenv("CUDA_CACHE_DISABLE", "1", 1);
  const int repetitions = options->repetitions > 0 ? options->repetitions : 10;
  Measurement measurement;
  measurement.benchmark = "prepare_cost";
  measurement.command = fmt::format("build/release/benchmarks/prepare_cost --target {} --repetitions {}", options->target, repetitions);
  measurement.figures["shape"] = {{"heads", kHeads}, {"group_size", kGroup}, {"repetitions", repetitions}};
  Result<> done;
  for (const Scenario& scenario :
       {Scenario{"per_token_cold", 0, false}, {"union_cold", kGroup, false}, {"per_token_warm", 0, true}, {"union_warm", kGroup, true}}) {
    if (done) done = measure(scenario, *options, repetitions, folder, measurement);
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  if (!done) return report(done.error());

  const Result<Runtime> runtime = Runtime::create();
  if (!runtime) return report(runtime.error());
  const Result<> written = write(measurement, *options, *runtime, options->target == "cuda" ? DeviceId::cuda(0) : DeviceId::host());
  return written ? 0 : report(written.error());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5 && std::string(argv[1]) == "--child")
    return run_child(argv[2], static_cast<int>(std::strtol(argv[3], nullptr, 10)), argv[4]);
  return run(argc, argv);
}
