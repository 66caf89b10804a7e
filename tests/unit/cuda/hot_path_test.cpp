// Counts what a launch does besides launching. A program of its own, because the counters stand in front of the C library's functions.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "fake_driver_fixture.hpp"

#include <mutex>
#include <string>

#include "fixtures/call_counters.hpp"
#include "kernwright/sparse_mla_prefill.hpp"

namespace {

/// What the calling thread allocated and locked while `work` ran.
template <class Work>
kernwright::test::CallCounts counted(const Work& work) {
  const auto before = kernwright::test::call_counts();
  work();
  const auto after = kernwright::test::call_counts();
  return {after.allocations - before.allocations, after.locks - before.locks};
}

}  // namespace

using namespace kernwright;
using namespace kernwright::testing;

TEST_CASE("cuda launch: takes no lock and allocates nothing, on a stream, on a default stream, with attributes") {
  auto& driver = fake_driver();
  const auto loaded = prepared();
  const CUstream stream = driver.make_stream(0);
  Plan clustered = plan();
  clustered.cluster = 2;
  const long params[2] = {};
  int refused = 0;
  const auto launch_all = [&] {
    for (int i = 0; i < 1000; ++i) {
      refused += loaded.kernel->launch(Grid{}, plan(), params, stream);
      refused += loaded.kernel->launch(Grid{2, 1, 1}, clustered, params, stream);
    }
  };
  launch_all();
  const auto counts = counted(launch_all);
  CHECK(refused == 0);
  CHECK(counts.allocations == 0);
  CHECK(counts.locks == 0);
}

// The whole call, real kernels on the fake device: argument checks, parameter structs, both launches.
TEST_CASE("sparse MLA prefill: a prepared call takes no lock and allocates nothing") {
  auto& driver = fake_driver();
  RuntimeOptions runtime_options;
  runtime_options.memory_only = true;
  runtime_options.cuda_driver = KERNWRIGHT_FAKE_CUDA_WHOLE;
  auto runtime = Runtime::create(runtime_options);
  REQUIRE(runtime);
  for (const int group_size : {0, 8}) {
    SparseMlaPrefillOptions options;
    options.device = DeviceId::cuda(0);
    options.heads = 8;
    options.group_size = group_size;
    auto op = SparseMlaPrefill::create(*runtime, options);
    if (!op && op.error().code == ErrorCode::compiler_unavailable) {
      MESSAGE("skipped: no NVRTC here");
      return;
    }
    REQUIRE_MESSAGE(op.has_value(), (op ? "" : op.error().text()));
    constexpr std::int64_t kTokens = 100, kRows = 1000, kTopk = 64;
    // Addresses of the fake device: nothing looks behind them.
    const auto at = [](std::uintptr_t address) { return reinterpret_cast<void*>(address << 20); };
    SparseMlaPrefillArguments arguments;
    arguments.q = TensorView::contiguous(at(1), DType::bf16, {kTokens, 8, 576});
    arguments.kv = TensorView::contiguous(at(2), DType::bf16, {kRows, 576});
    arguments.indices = TensorView::contiguous(at(3), DType::i32, {kTokens, kTopk});
    arguments.topk_length = TensorView::contiguous(at(4), DType::i32, {kTokens});
    arguments.attn_sink = TensorView::contiguous(at(5), DType::f32, {8});
    arguments.out = TensorView::contiguous(at(6), DType::bf16, {kTokens, 8, 512});
    arguments.lse = TensorView::contiguous(at(7), DType::f32, {kTokens, 8});
    arguments.sm_scale = 0.1F;
    arguments.workspace = at(8);
    arguments.workspace_size = op->workspace_bytes(kTokens, kRows);
    const StreamHandle stream{driver.make_stream(0)};
    // The attention kernel after a union build is launched with an attribute.
    const auto launches = [&] { return driver.calls("cuLaunchKernel") + driver.calls("cuLaunchKernelEx"); };
    const int before = launches();
    int refused = 0;
    const auto counts = counted([&] {
      for (int i = 0; i < 100; ++i) refused += op->run(arguments, stream) ? 0 : 1;
    });
    CHECK(refused == 0);
    CHECK(launches() - before == (group_size == 0 ? 100 : 200));
    CHECK(counts.allocations == 0);
    CHECK(counts.locks == 0);
  }
}

TEST_CASE("cuda launch: the counters count") {
  REQUIRE(kernwright::test::counts_calls());
  std::string* data = nullptr;
  const auto counts = counted([&] {
    data = new std::string(100, 'x');
    std::mutex mutex;
    mutex.lock();
    mutex.unlock();
  });
  delete data;
  CHECK(counts.allocations >= 2);
  CHECK(counts.locks >= 1);
}
