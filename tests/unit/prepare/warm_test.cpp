// Warming many requests: what is compiled, in which order, how many at once, and what is said about it. No kernel is launched.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <set>
#include <stdexcept>

#include "cases/scale_template.hpp"
#include "fixtures/temporary_folder.hpp"
#include "prepare/options.hpp"
#include "prepare/runtime_state.hpp"
#include "prepare/warm_cost.hpp"
#include "unit/prepare/watched_backend.hpp"

using namespace kernwright;
using tests::TemporaryFolder;
using tests::WatchedBackend;
using tests::WatchedCompiler;

namespace {

/// A runtime whose compiles are watched, for host and for CUDA targets alike.
struct Watched {
  std::shared_ptr<WatchedBackend> backend;
  Runtime runtime;

  explicit Watched(RuntimeOptions options = memory_only()) : Watched(state_of(std::move(options))) {}
  [[nodiscard]] WatchedCompiler& compiler() const { return backend->watched(); }
  static RuntimeOptions memory_only() {
    RuntimeOptions options;
    options.memory_only = true;
    return options;
  }

 private:
  explicit Watched(const std::shared_ptr<Runtime::State>& state) : backend(std::make_shared<WatchedBackend>(state->host)), runtime(state) {
    state->host = backend;
    state->cuda = backend;
    REQUIRE(runtime.register_template(cases::scale_template()));
  }
  static std::shared_ptr<Runtime::State> state_of(RuntimeOptions options) {
    auto resolved = resolve_options(std::move(options));
    REQUIRE(resolved);
    return Runtime::State::create(std::move(*resolved));
  }
};

RuntimeOptions in_store(const std::filesystem::path& store) {
  RuntimeOptions options;
  options.store = store;
  return options;
}

WarmRequest scale(std::int64_t factor, const char* target = "host") {
  return {"test/scale", Specialisation{}.set("factor", factor), *Target::parse(target)};
}

WarmSummary warmed(const Runtime& runtime, const std::vector<WarmRequest>& requests, const WarmOptions& options = {}) {
  auto summary = runtime.warm_all(requests, options);
  REQUIRE_MESSAGE(summary, (summary ? "" : summary.error().text()));
  return std::move(*summary);
}

WarmOptions jobs(int count) {
  WarmOptions options;
  options.jobs = count;
  return options;
}

/// Holds arrivals until `size` are there together; gives up after half a minute.
class Gate {
 public:
  explicit Gate(int size) : size_(size) {}
  Result<> pass() {
    std::unique_lock lock(mutex_);
    const int round = round_;
    largest_ = std::max(largest_, ++inside_);
    if (inside_ == size_) {
      inside_ = 0;
      ++round_;
      all_here_.notify_all();
      return {};
    }
    if (!all_here_.wait_for(lock, std::chrono::seconds(30), [&] { return round_ != round; })) {
      return fail(ErrorCode::timed_out, "not enough compiles came together");
    }
    return {};
  }
  [[nodiscard]] int largest() const { return largest_; }

 private:
  const int size_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  int inside_ = 0, largest_ = 0, round_ = 0;
};

}  // namespace

TEST_CASE("warm: as many compiles as jobs are in flight, to the last") {
  constexpr int kJobs = 4;
  RuntimeOptions as_many = Watched::memory_only();
  as_many.compiles_at_once = kJobs;  // whatever this machine would bear
  const Watched watched(as_many);
  // Only where all four threads compile at once do four come together, and 4 plan tables and 4 x 3 kernels leave none over.
  Gate plans(kJobs), kernels(kJobs);
  watched.compiler().before = [&](const BuildRequest& request) {
    return request.kind == ArtifactKind::plans ? plans.pass() : kernels.pass();
  };
  const WarmSummary summary = warmed(watched.runtime, {scale(1), scale(2), scale(3), scale(4)}, jobs(kJobs));
  CHECK(summary.built == 12);
  CHECK(summary.failed == 0);
  CHECK(summary.plans_built == 4);
  CHECK(summary.jobs == kJobs);
  CHECK(kernels.largest() == kJobs);
}

TEST_CASE("warm: plans come first, then kernels, those that compile longest first") {
  const Watched watched;
  TemplateSource source = cases::scale_template();
  std::string& manifest = source.manifest;
  manifest.replace(manifest.find("test/scale\""), 11, "test/order\"");
  manifest.replace(manifest.find("fall_back"), manifest.find("[[parameter]]") - manifest.find("fall_back"),
                   "fall_back = [\"portable:m1n1s1w1\", \"mma:m1n1s1w1\", \"mma:m1n40s1w1\", \"wgmma:m1n1s1w1\"]\n");
  const std::string variant = manifest.substr(manifest.find("[[variant]]"));
  manifest.resize(manifest.find("[[variant]]"));
  for (const char* name : {"portable", "mma", "wgmma"}) {
    std::string one = variant;
    one.replace(one.find("plain"), 5, name);
    manifest += one;
  }
  REQUIRE_MESSAGE(watched.runtime.register_template(source), watched.runtime.register_template(source).error().text());
  WarmRequest first = scale(1), second = scale(2);
  first.template_name = second.template_name = "test/order";
  CHECK(warmed(watched.runtime, {first, second}, jobs(1)).built == 8);
  CHECK(watched.compiler().seen() == std::vector<std::string>{"plans factor=1 host", "plans factor=2 host", "wgmma:m1n1s1w1 factor=1 host",
                                                              "wgmma:m1n1s1w1 factor=2 host", "mma:m1n40s1w1 factor=1 host",
                                                              "mma:m1n40s1w1 factor=2 host", "mma:m1n1s1w1 factor=1 host",
                                                              "mma:m1n1s1w1 factor=2 host", "portable:m1n1s1w1 factor=1 host",
                                                              "portable:m1n1s1w1 factor=2 host"});
}

TEST_CASE("warm: the estimate puts wgmma before mma before portable, and larger tiles first") {
  const auto cost = [](const char* tile) { return compile_cost(*Tile::parse(tile)); };
  CHECK(cost("wgmma:m64n48s3w16") > cost("mma:m64n32s2w8"));
  CHECK(cost("mma:m64n32s2w8") > cost("mma:m64n16s2w8"));
  CHECK(cost("mma:m64n16s2w8") > cost("mma:m32n16s2w8"));
  CHECK(cost("mma:m16n32s2w4") > cost("portable:m16n16s1w4"));
  CHECK(cost("mma:m65536n65536s1w1") < 10 * cost("mma:m16n16s1w8"));
}

TEST_CASE("warm: what is asked for twice is built once and said once") {
  const Watched watched;
  WarmRequest smaller = scale(1);
  smaller.tile = *Tile::parse("plain:m1n40s1w1");  // its fall-backs are those of the whole order
  WarmOptions options = jobs(3);
  std::set<std::pair<bool, std::size_t>> totals;
  options.progress = [&](const WarmProgress& now) { totals.emplace(now.planning, now.total); };
  const WarmSummary summary = warmed(watched.runtime, {scale(1), smaller, scale(1)}, options);
  CHECK(totals == std::set<std::pair<bool, std::size_t>>{{true, 2}, {false, 3}});
  CHECK(summary.built == 3);
  CHECK(summary.hit == 0);
  CHECK(summary.skipped == 1);
  CHECK(summary.items.size() == 4);
  CHECK(summary.plans_built + summary.plans_hit == 1);
  const auto seen = watched.compiler().seen();
  CHECK(std::set<std::string>(seen.begin(), seen.end()).size() == seen.size());

  const WarmSummary again = warmed(watched.runtime, {smaller, scale(1)});
  CHECK(again.built == 0);
  CHECK(again.hit == 3);
  CHECK(again.plans_hit == 1);
  CHECK(watched.compiler().seen() == seen);
}

TEST_CASE("warm: each target's limits decide what is left out, and the reason says so") {
  const Watched watched;
  const WarmSummary summary = warmed(watched.runtime, {scale(1, "sm_90a"), scale(1, "sm_120a")});
  CHECK(summary.built == 3 + 2);  // 200 KiB is below the 227 of sm_90a and above the 99 of sm_120a
  CHECK(summary.skipped == 1 + 2);
  REQUIRE(summary.items.size() == 8);
  const WarmedItem& left_out = summary.items[5];
  CHECK(left_out.tile.text() == "plain:m1n200s1w1");
  CHECK(left_out.outcome == WarmOutcome::skipped);
  CHECK(left_out.reason == "needs 204800 bytes of dynamic shared memory a block, sm_120a offers 101376");
  CHECK(left_out.plan.dynamic_shared == 204800);
  CHECK(summary.items[1].key.size() == 32);
}

TEST_CASE("warm: without fall-backs the first that fits is built, or the next where the compiler says that it does not fit") {
  const Watched watched;
  WarmRequest request = scale(1);
  request.fall_backs = false;
  CHECK(warmed(watched.runtime, {request}).built == 1);
  CHECK(watched.compiler().seen() == std::vector<std::string>{"plans factor=1 host", "plain:m1n200s1w1 factor=1 host"});

  const Watched refusing;
  refusing.compiler().before = [](const BuildRequest& each) -> Result<> {
    if (each.kind == ArtifactKind::kernel && each.tiles.front().block_n == 200) return fail(ErrorCode::does_not_fit, "too many registers");
    return {};
  };
  const WarmSummary summary = warmed(refusing.runtime, {request});
  REQUIRE(summary.items.size() == 3);
  CHECK(summary.items[0].outcome == WarmOutcome::skipped);
  CHECK(summary.items[1].outcome == WarmOutcome::skipped);
  CHECK(summary.items[1].reason.find("too many registers") != std::string::npos);
  CHECK(summary.items[2].outcome == WarmOutcome::built);
  CHECK(summary.items[2].tile.text() == "plain:m1n40s1w1");
  CHECK(refusing.compiler().seen().size() == 3);
}

TEST_CASE("warm: a kernel that fails is an item with the compiler's words, and stops nothing else") {
  const Watched watched;
  watched.compiler().before = [](const BuildRequest& each) -> Result<> {
    if (each.kind == ArtifactKind::kernel && each.tiles.front().block_n == 40)
      return fail(ErrorCode::compile_failed, "scale.cu:7: no such thing");
    return {};
  };
  const WarmSummary summary = warmed(watched.runtime, {scale(1), scale(2)}, jobs(2));
  CHECK(summary.built == 4);
  CHECK(summary.failed == 2);
  const auto failed = std::ranges::find(summary.items, WarmOutcome::failed, &WarmedItem::outcome);
  REQUIRE(failed != summary.items.end());
  CHECK(failed->tile.text() == "plain:m1n40s1w1");
  CHECK(failed->reason.find("scale.cu:7: no such thing") != std::string::npos);
}

TEST_CASE("warm: requests that are off, or whose plans fail, are items too") {
  const Watched watched;
  watched.compiler().before = [](const BuildRequest& each) -> Result<> {
    if (each.specialisation.text() == "factor=2") return fail(ErrorCode::compile_failed, "plan.cuh:1: no");
    return {};
  };
  WarmRequest unknown = scale(1);
  unknown.template_name = "test/scales";
  WarmRequest tile = scale(3);
  tile.tile = *Tile::parse("plain:m1n2s1w1");
  const WarmSummary summary = warmed(watched.runtime, {unknown, scale(2), tile, scale(1001), scale(1)});
  CHECK(summary.built == 3);
  CHECK(summary.failed == 4);
  REQUIRE(summary.items.size() == 8);
  const char* const words[] = {"test/scale", "plan.cuh:1: no", "block_n = 2", "1000"};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(summary.items[i].tile.variant.empty());
    CHECK_MESSAGE(summary.items[i].reason.find(words[i]) != std::string::npos, summary.items[i].reason);
  }
}

TEST_CASE("warm: a missing compiler ends it at once") {
  for (const bool at_plans : {true, false}) {
    const Watched watched;
    watched.compiler().before = [&](const BuildRequest& each) -> Result<> {
      if (at_plans || each.kind == ArtifactKind::kernel) return fail(ErrorCode::compiler_unavailable, "no NVRTC anywhere");
      return {};
    };
    const auto summary = watched.runtime.warm_all(std::vector{scale(1), scale(2), scale(3)}, jobs(1));
    REQUIRE_FALSE(summary);
    CHECK(summary.error().code == ErrorCode::compiler_unavailable);
    CHECK(summary.error().message == "no NVRTC anywhere");
    CHECK(watched.compiler().seen().size() == (at_plans ? 1 : 4));
  }
}

TEST_CASE("warm: where no tile fits, the request fails") {
  RuntimeOptions options = Watched::memory_only();
  options.host.shared_memory = Bytes{512};
  const Watched watched(options);
  const WarmSummary summary = warmed(watched.runtime, {scale(1)});
  CHECK(summary.skipped == 4);
  CHECK(summary.failed == 1);
  CHECK(summary.items.front().reason.find("does_not_fit: no tile of test/scale (factor=1) fits host: plain:m1n1024s1w1: needs 1048576") ==
        0);
  const auto one = watched.runtime.warm(scale(1));
  REQUIRE_FALSE(one);
  CHECK(one.error().code == ErrorCode::does_not_fit);
}

TEST_CASE("warm: a cancel lets compiles finish and begins none, and a second run builds the rest only") {
  const TemporaryFolder store;
  std::atomic<bool> cancel{false};
  {
    const Watched watched(in_store(store.path()));
    std::atomic<int> kernels{0};
    watched.compiler().before = [&](const BuildRequest& each) -> Result<> {
      if (each.kind == ArtifactKind::kernel && ++kernels == 2) cancel = true;
      return {};
    };
    WarmOptions options = jobs(1);
    options.cancel = &cancel;
    const WarmSummary summary = warmed(watched.runtime, {scale(1), scale(2)}, options);
    CHECK(summary.cancelled);
    CHECK(summary.built == 2);
    CHECK(summary.not_begun == 4);
    CHECK(summary.failed == 0);
  }
  const Watched watched(in_store(store.path()));
  const WarmSummary rest = warmed(watched.runtime, {scale(1), scale(2)}, jobs(2));
  CHECK_FALSE(rest.cancelled);
  CHECK(rest.built == 4);
  CHECK(rest.hit == 2);
  CHECK(rest.plans_hit == 2);
  CHECK(rest.plans_built == 0);

  WarmOptions options;
  options.cancel = &cancel;
  const Watched untouched;
  const WarmSummary none = warmed(untouched.runtime, {scale(1)}, options);
  CHECK(none.cancelled);
  CHECK(none.items.empty());
  CHECK(untouched.compiler().seen().empty());
}

TEST_CASE("warm: progress counts to the end, names what compiles, and tells each outcome once") {
  const Watched watched;
  struct Call {
    bool planning;
    std::size_t done, total, compiling;
    std::optional<double> left;
    std::string finished;
  };
  std::vector<Call> calls;  // one call at a time: no lock
  WarmOptions options = jobs(2);
  options.progress = [&](const WarmProgress& now) {
    calls.push_back({now.planning, now.done, now.total, now.compiling.size(), now.seconds_left,
                     now.finished != nullptr ? now.finished->tile.text() + " " + std::string(to_string(now.finished->outcome)) : ""});
    for (const std::string& line : now.compiling) CHECK(line.starts_with("host test/scale factor="));
  };
  warmed(watched.runtime, {scale(1), scale(2)}, options);
  REQUIRE(calls.size() == 2 * (2 + 6));  // a beginning and an end each
  const auto first_kernel = std::ranges::find(calls, false, &Call::planning);
  CHECK(std::ranges::all_of(first_kernel, calls.end(), [](const Call& call) { return !call.planning && call.total == 6; }));
  CHECK(std::ranges::all_of(calls.begin(), first_kernel, [](const Call& call) { return call.total == 2 && call.finished.empty(); }));
  CHECK(std::ranges::is_sorted(first_kernel, calls.end(), {}, &Call::done));
  CHECK(std::ranges::all_of(calls, [](const Call& call) { return call.compiling <= 2; }));
  CHECK(calls.back().done == 6);
  CHECK(calls.back().compiling == 0);
  CHECK(calls.back().left == doctest::Approx(0));
  CHECK_FALSE(first_kernel->left);
  CHECK(std::ranges::count(calls, "plain:m1n200s1w1 built", &Call::finished) == 2);
  CHECK(std::ranges::count_if(calls, [](const Call& call) { return !call.finished.empty(); }) == 6);
}

TEST_CASE("warm: what the progress callback throws is logged and goes no further") {
  std::atomic<int> lines{0};
  RuntimeOptions logging = Watched::memory_only();
  logging.log = [&](LogLevel level, std::string_view line) {
    if (level == LogLevel::warn && line.find("progress callback threw: no") != std::string_view::npos) ++lines;
  };
  const Watched watched(logging);
  WarmOptions options = jobs(2);
  options.progress = [](const WarmProgress&) { throw std::runtime_error("no"); };
  CHECK(warmed(watched.runtime, {scale(1)}, options).built == 3);
  CHECK(lines == 2 * (1 + 3));
  options.progress = [](const WarmProgress&) { throw 7; };
  CHECK(warmed(watched.runtime, {scale(2)}, options).built == 3);
}

TEST_CASE("warm: a store that takes nothing is said") {
  const Watched watched(in_store("/dev/null/store"));
  const WarmSummary summary = warmed(watched.runtime, {scale(1)});
  CHECK(summary.built == 3);
  CHECK(summary.not_stored == 4);  // the plans as well
}

TEST_CASE("warm: tiles that tuning tables name for single devices of a target are warmed with it") {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "mine.toml")
      << "format = 1\n[[tile]]\ntemplate = \"test/scale\"\ntarget = \"sm_90a\"\ntile = \"plain:m1n40s1w2\"\nmeasured = \"x\"\n"
         "[[tile]]\ntemplate = \"test/scale\"\ntarget = \"sm_90a\"\ndevice = \"NVIDIA H200\"\ntile = \"plain:m1n1s1w2\"\nmeasured = \"x\"\n"
         "[[tile]]\ntemplate = \"test/scale\"\ntarget = \"sm_80\"\ndevice = \"NVIDIA A100\"\ntile = \"plain:m1n200s1w2\"\nmeasured = "
         "\"x\"\n";
  RuntimeOptions options = Watched::memory_only();
  options.tuning_folder = folder.path();
  const Watched watched(options);
  WarmRequest request = scale(1, "sm_90a");
  request.fall_backs = false;
  const WarmSummary summary = warmed(watched.runtime, {request});
  REQUIRE(summary.items.size() == 2);
  CHECK(summary.items[0].tile.text() == "plain:m1n40s1w2");
  CHECK(summary.items[1].tile.text() == "plain:m1n1s1w2");
}

TEST_CASE("warm: a device that is here gives its own limits") {
  RuntimeOptions options = Watched::memory_only();
  options.host.shared_memory = Bytes{50 * 1024};
  const Watched watched(options);
  WarmRequest request = scale(1, "sm_90a");
  request.device = DeviceId::host();
  const WarmSummary summary = warmed(watched.runtime, {request});
  CHECK(summary.built == 2);
  CHECK(summary.skipped == 2);
  CHECK(summary.items.front().target == Target::host());
  request.device = DeviceId{BackendKind::host, 7};
  CHECK(warmed(watched.runtime, {request}).failed == 1);
}

TEST_CASE("warm: a number of jobs that is none is refused") {
  const Watched watched;
  for (const int count : {-1, 1025}) {
    const auto summary = watched.runtime.warm_all(std::vector{scale(1)}, jobs(count));
    REQUIRE_FALSE(summary);
    CHECK(summary.error().code == ErrorCode::invalid_argument);
    CHECK(summary.error().message.find(std::to_string(count)) != std::string::npos);
  }
  RuntimeOptions options = Watched::memory_only();
  options.compiles_at_once = 3;
  CHECK(warmed(Watched(options).runtime, {scale(1)}).jobs == 3);
  CHECK(warmed(watched.runtime, {}).items.empty());
}
