// Launching: threads, streams, devices, arguments.
#include <doctest/doctest.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "cases/scale_template.hpp"
#include "cases/sparse_mla_case.hpp"
#include "cases/step_down_cases.hpp"
#include "gpu/gpu_fixture.hpp"

using namespace kernwright;
using namespace kernwright::cases;
using gpu::kDevice;

namespace {

Kernel scale_kernel(const Runtime& runtime, DeviceId device, std::int64_t factor = 5) {
  REQUIRE(runtime.register_template(scale_template()));
  auto kernel = runtime.prepare(
      {"test/scale", Specialisation{}.set("factor", factor), device, *Tile::parse("plain:m1n40s1w2"), sizeof(ScaleParams), std::nullopt});
  REQUIRE_MESSAGE(kernel, (kernel ? "" : kernel.error().text()));
  return *kernel;
}

}  // namespace

TEST_CASE("gpu launch: from a fresh thread with no context, on a stream and on the default stream") {
  const Runtime runtime = gpu::runtime();
  const Kernel kernel = scale_kernel(runtime, kDevice);
  bool on_stream = false, on_default = false;
  std::thread([&] { on_stream = scales_rightly(runtime, kDevice, kernel, 5); }).join();
  std::thread([&] { on_default = kernel.launch(Grid{1, 1, 1}, ScaleParams{}, {}).has_value(); }).join();
  CHECK(on_stream);
  CHECK(on_default);
}

TEST_CASE("gpu launch: many threads share one kernel") {
  const Runtime runtime = gpu::runtime();
  const Kernel kernel = scale_kernel(runtime, kDevice);
  std::array<bool, 8> good{};
  std::vector<std::thread> threads;
  for (bool& mine : good) threads.emplace_back([&] { mine = scales_rightly(runtime, kDevice, kernel, 5); });
  for (std::thread& thread : threads) thread.join();
  for (const bool mine : good) CHECK(mine);
}

TEST_CASE("gpu launch: two streams at once, each with its own workspace") {
  const Runtime runtime = gpu::runtime();
  SparseMlaCase a, b;
  a.tokens = b.tokens = 500;
  a.kv_rows = b.kv_rows = 2000;
  a.topk = b.topk = 512;
  b.seed = 2;
  auto op = SparseMlaPrefill::create(runtime, options_of(a, kDevice));
  REQUIRE(op);
  const auto inputs_a = make_inputs(a), inputs_b = make_inputs(b);
  const Bytes workspace = op->workspace_bytes(a.tokens, a.kv_rows);
  auto problem_a = DeviceProblem::create(runtime, kDevice, a, *inputs_a, workspace);
  auto problem_b = DeviceProblem::create(runtime, kDevice, b, *inputs_b, workspace);
  auto stream_a = runtime.create_stream(kDevice), stream_b = runtime.create_stream(kDevice);
  REQUIRE(problem_a);
  REQUIRE(problem_b);
  for (int i = 0; i < 20; ++i) {
    REQUIRE(op->run(problem_a->arguments, stream_a->handle()));
    REQUIRE(op->run(problem_b->arguments, stream_b->handle()));
  }
  REQUIRE(stream_a->synchronize());
  REQUIRE(stream_b->synchronize());
  CHECK(judge(a, *inputs_a, *problem_a->download()).passed);
  CHECK(judge(b, *inputs_b, *problem_b->download()).passed);
}

TEST_CASE("gpu launch: wrong grids, parameters and workspaces are errors that leave the device usable") {
  const Runtime runtime = gpu::runtime();
  const Kernel kernel = scale_kernel(runtime, kDevice);
  CHECK_FALSE(kernel.launch(Grid{1, 65'536, 1}, ScaleParams{}, {}));
  CHECK_FALSE(kernel.launch(Grid{0, 1, 1}, ScaleParams{}, {}));
  CHECK_FALSE(kernel.launch(Grid{1, 1, 1}, 3, {}));
  CHECK(scales_rightly(runtime, kDevice, kernel, 5));
}

TEST_CASE("gpu launch: resources of a kernel are what its cubin says") {
  const Runtime runtime = gpu::runtime();
  const Kernel kernel = scale_kernel(runtime, kDevice);
  CHECK(kernel.report().resources.registers > 0);
  CHECK(kernel.report().resources.spill_stores.count == 0);
}

TEST_CASE("gpu launch: a stream of another device is an error that names both") {
  const Runtime runtime = gpu::runtime();
  auto devices = runtime.cuda_devices();
  REQUIRE(devices);
  if (devices->size() < 2) {
    MESSAGE("skipped: one device only");
    return;
  }
  const DeviceId other = DeviceId::cuda(1);
  const Kernel here = scale_kernel(runtime, kDevice), there = scale_kernel(runtime, other);
  auto stream = runtime.create_stream(other);
  REQUIRE(stream);
  auto launched = here.launch(Grid{1, 1, 1}, ScaleParams{}, stream->handle());
  REQUIRE_FALSE(launched);
  CHECK(launched.error().code == ErrorCode::invalid_argument);
  CHECK(launched.error().text().find("cuda:0") != std::string::npos);
  CHECK(launched.error().text().find("cuda:1") != std::string::npos);
  CHECK(scales_rightly(runtime, kDevice, here, 5));
  CHECK(scales_rightly(runtime, other, there, 5));
  SparseMlaCase c;
  CHECK(run_case(runtime, other, c)->passed());
}
