// One process of a fleet that starts cold: it says "ready", waits at a barrier, then prepares and launches test/scale on host with a given
// store and compares every number with plain arithmetic. On its way out it prints one JSON document: whether the answer was right, the
// warnings, the counters. Its file system can be told to misbehave.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cases/scale_template.hpp"
#include "platform/posix_calls.hpp"
#include "prepare/options.hpp"
#include "prepare/runtime_state.hpp"
#include "robustness/misbehaving_calls.hpp"
#include "robustness/scale_launch.hpp"

namespace {

using namespace kernwright;
using namespace kernwright::robustness;

struct Settings {
  std::string store;
  std::string compiler;
  std::string fault = "none";
  std::size_t bytes = 0;
  double lock_wait_limit_seconds = 100;
  std::int64_t factor = 3;
};

std::shared_ptr<PosixCalls> calls_for(const Settings& settings) {
  if (settings.fault == "no-locks") return std::make_shared<NoLocks>();
  if (settings.fault == "full-disk") return std::make_shared<FullDisk>(settings.bytes);
  if (settings.fault == "read-only-disk") return std::make_shared<ReadOnlyDisk>();
  return std::make_shared<PosixCalls>();
}

void wait_at_barrier() {
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

nlohmann::json launch(const Settings& settings) {
  std::mutex mutex;
  std::vector<std::string> warnings;
  RuntimeOptions options;
  options.store = settings.store;
  options.read_only_stores.emplace();
  options.sealed = false;
  options.host.compiler = settings.compiler;
  options.lock_wait_limit_seconds = settings.lock_wait_limit_seconds;
  options.log_level = LogLevel::warn;
  options.log = [&](LogLevel, std::string_view line) {
    const std::lock_guard lock(mutex);
    warnings.emplace_back(line);
  };
  auto resolved = resolve_options(std::move(options));
  if (!resolved) return {{"right", false}, {"error", resolved.error().text()}};
  const Runtime runtime(Runtime::State::create(std::move(*resolved), {.files = make_posix_file_system(calls_for(settings))}));
  const auto launched = launch_scale(runtime, settings.factor);
  const Counters counters = runtime.counters();
  return {{"right", launched.has_value()},
          {"error", launched ? "" : launched.error().text()},
          {"warnings", warnings},
          {"process", ::getpid()},
          {"compiles", counters.compiles},
          {"store_hits", counters.store_hits},
          {"lock_waits", counters.lock_waits},
          {"bad_entries", counters.bad_entries},
          {"store_warnings", counters.store_warnings}};
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("One cold start of test/scale.");
  app.add_option("store", settings.store)->required();
  app.add_option("--compiler", settings.compiler)->required();
  app.add_option("--fault", settings.fault)->check(CLI::IsMember({"none", "no-locks", "full-disk", "read-only-disk"}));
  app.add_option("--bytes", settings.bytes, "full-disk: what can be written before");
  app.add_option("--lock-wait", settings.lock_wait_limit_seconds);
  app.add_option("--factor", settings.factor);
  CLI11_PARSE(app, argc, argv);
  fmt::print("ready\n");
  std::fflush(stdout);
  wait_at_barrier();
  const nlohmann::json report = launch(settings);
  fmt::print("{}\n", report.dump());
  return report["right"].get<bool>() ? 0 : 1;
}
