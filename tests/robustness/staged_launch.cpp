#include "robustness/staged_launch.hpp"

#include <stdexcept>
#include <utility>

#include "prepare/options.hpp"
#include "prepare/runtime_state.hpp"
#include "robustness/scale_launch.hpp"

namespace kernwright::robustness {

StagedLaunch launch_staged(const std::shared_ptr<Backend>& backend, const std::filesystem::path& store, std::shared_ptr<PosixCalls> calls,
                           const std::function<void(RuntimeOptions&)>& set) {
  constexpr std::int64_t kFactor = 3;
  std::vector<std::string> warnings;
  RuntimeOptions options;
  options.store = store;
  options.read_only_stores.emplace();
  options.sealed = false;
  options.lock_wait_limit_seconds = 2;  // nobody holds one here: only a fault that reads like a holder waits
  options.store_limit = Bytes{};
  options.log_level = LogLevel::warn;
  options.log = [&](LogLevel, std::string_view line) { warnings.emplace_back(line); };
  if (set) set(options);
  auto resolved = resolve_options(std::move(options));
  if (!resolved) throw std::runtime_error(resolved.error().text());
  auto state = Runtime::State::create(std::move(*resolved), {.files = make_posix_file_system(std::move(calls))});
  state->host = backend;
  const Runtime runtime(std::move(state));
  auto kernel = launch_scale(runtime, kFactor);
  return {std::move(kernel), std::move(warnings), runtime.counters()};
}

}  // namespace kernwright::robustness
