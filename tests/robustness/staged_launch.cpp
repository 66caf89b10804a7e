#include "robustness/staged_launch.hpp"

#include <stdexcept>
#include <utility>

#include "fixtures/moved_clock.hpp"
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
  options.store_limit = Bytes{};
  options.log_level = LogLevel::warn;
  options.log = [&](LogLevel, std::string_view line) { warnings.emplace_back(line); };
  if (set) set(options);
  auto resolved = resolve_options(std::move(options));
  if (!resolved) throw std::runtime_error(resolved.error().text());
  const auto clock = std::make_shared<tests::MovedClock>();
  auto state =
      Runtime::State::create(std::move(*resolved), RuntimeParts{.files = make_posix_file_system(std::move(calls)), .clock = clock});
  state->host = backend;
  const Runtime runtime(std::move(state));
  auto kernel = launch_scale(runtime, kFactor);
  return {std::move(kernel), std::move(warnings), runtime.counters(), clock->sleeps()};
}

}  // namespace kernwright::robustness
