#include "cases/captured_step_case.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "cases/captured_step.hpp"

namespace kernwright::cases {
namespace {

/// What became of the launch counters.
class LaunchCounts {
 public:
  explicit LaunchCounts(const Runtime& runtime) : runtime_(runtime), before_(runtime.counters().launches) {}
  [[nodiscard]] std::map<std::string, std::uint64_t> since() const {
    std::map<std::string, std::uint64_t> counts;
    for (const auto& [name, count] : runtime_.counters().launches) {
      const auto earlier = before_.find(name);
      const std::uint64_t more = count - (earlier == before_.end() ? 0 : earlier->second);
      if (more > 0) counts[name] = more;
    }
    return counts;
  }

 private:
  Runtime runtime_;
  std::map<std::string, std::uint64_t> before_;
};

void launch(const Launches& launches, StreamHandle stream) {
  const Result<> done = launches(stream);
  REQUIRE_MESSAGE(done, (done ? "" : done.error().text()));
}

}  // namespace

Capture frozen_arguments() {
  return [](StreamHandle, const Launches& launches) { return [launches](StreamHandle stream) { launch(launches, stream); }; };
}

std::string_view to_string(ReplayFault fault) noexcept {
  switch (fault) {
    case ReplayFault::none: return "none";
    case ReplayFault::stale_tail: return "the tail of the write locations is stale";
    case ReplayFault::block_table_rebound: return "the block table is in other memory";
    case ReplayFault::indices_rebound: return "the indices are in other memory";
  }
  return "unknown";
}

int first_replay_that_differs(const Runtime& runtime, DeviceId device, const Capture& capture, ReplayFault fault) {
  CapturedStep step(runtime, device, true);
  for (const std::int64_t tokens : {30, 1, 47, 16, 15}) step.begin_request(tokens);
  step.prepare(ReplayFault::none);
  const std::function<void(StreamHandle)> replay = capture(step.stream(), step.step(CapturedStep::kLanes));
  const auto replay_is_eager = [&] {
    const auto written = static_cast<std::int64_t>(step.active());
    const auto eager = step.run([&](StreamHandle stream) { launch(step.step(written), stream); });
    step.judge(eager);
    return step.run(replay) == eager;
  };
  std::vector<std::function<void()>> changes{[] {},                         // one token more each
                                             [&] { step.end_request(0); },  // fewer requests: the lanes move up
                                             [&] { CHECK(step.compact() > 0); },
                                             [&] {  // others in other pages, as many as there are lanes
                                               step.end_request(1);
                                               for (const std::int64_t tokens : {60, 5, 33}) step.begin_request(tokens);
                                             }};
  changes.insert(changes.end(), 14, [] {});  // into new pages
  changes.emplace_back([&] {                 // most of them end at once, and what is left moves
    while (step.active() > 2) step.end_request(0);
    CHECK(step.compact() > 0);
  });
  changes.emplace_back([&] {
    while (step.active() > 0) step.end_request(0);
  });
  if (!replay_is_eager()) return 0;  // what was captured
  for (std::size_t i = 0; i < changes.size(); ++i) {
    CAPTURE(i);
    changes[i]();
    step.prepare(fault);
    // A fault's writes stay in the pool: nothing behind the first difference is of use.
    if (!replay_is_eager()) return static_cast<int>(i) + 1;
  }
  return kNoDifference;
}

namespace {

/// Launches by template name: those of a step's preparation, and those of the step itself.
struct StepLaunches {
  std::map<std::string, std::uint64_t> preparation, step;
};

StepLaunches launches_of_a_step(const Runtime& runtime, DeviceId device, bool unified) {
  CapturedStep step(runtime, device, unified);
  step.begin_request(20);
  step.begin_request(16);
  step.prepare(ReplayFault::none);
  StepLaunches launches;
  const LaunchCounts preparing(runtime);
  step.launch_preparation(ReplayFault::none);
  launches.preparation = preparing.since();
  const LaunchCounts stepping(runtime);
  launch(step.step(CapturedStep::kLanes), step.stream());
  launches.step = stepping.since();
  REQUIRE(step.run([](StreamHandle) {}).dense.size() > 0);  // waits
  return launches;
}

}  // namespace

void check_launches_of_a_step(const Runtime& runtime, DeviceId device) {
  using Counts = std::map<std::string, std::uint64_t>;
  const StepLaunches fixed = launches_of_a_step(runtime, device, false), unified = launches_of_a_step(runtime, device, true);
  // Translation is inside the kernels that write the block table and the CSR indices.
  CHECK(fixed.preparation == Counts{{"paged_kv/block_table", 1}, {"paged_kv/token_indices", 1}});
  CHECK(unified.preparation == Counts{{"paged_kv/block_table", 1}, {"paged_kv/token_indices", 1}, {"paged_kv/write_locations", 1}});
  const Counts step{{"paged_kv/write_rows", 1}, {"paged_mla/decode", 1}, {"paged_mla/combine", 1}, {"sparse_mla/prefill", 1}};
  CHECK(fixed.step == step);
  CHECK(unified.step == step);
}

}  // namespace kernwright::cases
