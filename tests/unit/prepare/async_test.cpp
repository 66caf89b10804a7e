// Preparing on the runtime's own threads, and a runtime in a forked child.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "cases/scale_template.hpp"
#include "cases/step_down_cases.hpp"
#include "fixtures/log_lines.hpp"
#include "kernwright/runtime.hpp"
#include "kernwright/sparse_mla_prefill.hpp"
#include "prepare/background_work.hpp"
#include "prepare/kernel_registry.hpp"

using namespace kernwright;
using cases::ScaleParams;

namespace {

PrepareRequest request(std::int64_t factor = 3) {
  return {"test/scale", Specialisation{}.set("factor", factor), DeviceId::host(), *Tile::parse("plain:m1n1s1w1"), sizeof(ScaleParams),
          std::nullopt};
}

Runtime scale_runtime(RuntimeOptions options = {}) {
  options.memory_only = true;
  auto runtime = Runtime::create(std::move(options));
  REQUIRE(runtime);
  REQUIRE(runtime->register_template(cases::scale_template()));
  return *runtime;
}

/// Holds tasks back until it is opened.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void wait_for(int waiting) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ >= waiting; });
  }
  [[nodiscard]] int waiting() {
    const std::lock_guard lock(mutex_);
    return waiting_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

}  // namespace

TEST_CASE("prepare_async: the kernel comes, the same as prepare's, and errors come too") {
  const Runtime runtime = scale_runtime();
  const auto future = runtime.prepare_async(request());
  PrepareRequest wrong = request();
  wrong.template_name = "test/none";
  const auto refused = runtime.prepare_async(wrong);
  const Result<Kernel>& kernel = future.get();
  REQUIRE_MESSAGE(kernel, (kernel ? "" : kernel.error().text()));
  CHECK(cases::scales_rightly(runtime, DeviceId::host(), *kernel, 3));
  REQUIRE_FALSE(refused.get());
  CHECK(refused.get().error().code == ErrorCode::not_found);
  CHECK(runtime.prepare(request())->report().key == kernel->report().key);
  // Known: answered without a thread.
  CHECK(runtime.prepare_async(request()).wait_for(std::chrono::seconds(0)) == std::future_status::ready);
  CHECK(runtime.counters().compiles == 2);
}

TEST_CASE("prepare_async: a runtime that goes away while it prepares answers every caller") {
  std::shared_future<Result<Kernel>> first, second;
  {
    RuntimeOptions options;
    options.compiles_at_once = 1;
    const Runtime runtime = scale_runtime(options);
    first = runtime.prepare_async(request(3));
    second = runtime.prepare_async(request(4));
  }
  for (const auto& future : {first, second}) {
    const Result<Kernel>& kernel = future.get();
    if (kernel) {
      CHECK(kernel->launch(Grid{1, 1, 1}, ScaleParams{}, {}));
    } else {
      CHECK(kernel.error().code == ErrorCode::unsupported);
    }
  }
}

TEST_CASE("create_async: a whole op is prepared while the caller goes on") {
  const Runtime runtime = scale_runtime();
  SparseMlaPrefillOptions options;
  options.device = DeviceId::host();
  options.heads = 0;
  const auto refused = SparseMlaPrefill::create_async(runtime, options);
  REQUIRE_FALSE(refused.get());
  CHECK(refused.get().error().code == ErrorCode::invalid_argument);
}

TEST_CASE("background work: so many at once and no more, what has not begun is dropped at the end, what runs is finished") {
  Gate gate;
  std::atomic<int> ran{0}, dropped{0};
  std::thread opener;
  {
    BackgroundWork work([] { return std::size_t{2}; });
    for (int i = 0; i < 6; ++i) {
      work.add({.run =
                    [&] {
                      gate.pass();
                      ++ran;
                    },
                .drop = [&] { ++dropped; }});
    }
    gate.wait_for(2);
    CHECK(gate.waiting() == 2);
    // The destructor waits for the two that run: opened from elsewhere once it has dropped the rest.
    opener = std::thread([&] {
      while (dropped < 4) std::this_thread::yield();
      gate.open();
    });
  }
  opener.join();
  CHECK(ran == 2);
  CHECK(dropped == 4);
}

TEST_CASE("registry: every field of a request tells kernels apart") {
  const Runtime runtime = scale_runtime();
  const auto kernel = runtime.prepare(request());
  REQUIRE(kernel);
  KernelRegistry registry;
  registry.add(request(), *kernel);
  CHECK(registry.find(request()));
  std::vector<PrepareRequest> others(8, request());
  others[0].template_name = "test/other";
  others[1].specialisation.set("factor", 4);
  others[2].specialisation = Specialisation{}.set("factor", DType::i32);
  others[3].device = DeviceId::cuda(0);
  others[4].tile.reset();
  others[5].tile->warps = 2;
  others[6].params_bytes = 8;
  others[7].after = others[7].tile;
  for (const PrepareRequest& other : others) CHECK_FALSE(registry.find(other));
}

#if !defined(__SANITIZE_THREAD__)
TEST_CASE("fork: in a child the parent's runtime says so, and a new one works") {
  const Runtime runtime = scale_runtime();
  REQUIRE(runtime.prepare(request()));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const auto refused = runtime.prepare(request());
    const bool said =
        !refused && refused.error().code == ErrorCode::unsupported && refused.error().message.find("fork") != std::string::npos;
    const auto later = runtime.prepare_async(request(4));
    const bool said_later = !later.get() && later.get().error().code == ErrorCode::unsupported;
    RuntimeOptions options;
    options.memory_only = true;
    auto anew = Runtime::create(options);
    const bool works = anew && anew->register_template(cases::scale_template()) && anew->prepare(request());
    ::_exit((said ? 0 : 1) + (said_later ? 0 : 2) + (works ? 0 : 4));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(runtime.prepare(request()).has_value());
}
#endif
