// The host device's limits, memory, events and loader.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "platform/file_system.hpp"
#include "unit/host/host_fixture.hpp"

namespace kernwright::test {
namespace {

const std::string kNothing = R"(
struct Params { int n; };
extern "C" __global__ void entry(const __grid_constant__ Params p) { if (p.n == 0) return; }
)";

TEST_CASE("host: the device and its settable limit") {
  RuntimeOptions options = host_options(HostMode::fibers, 1, 3);
  const auto info = [&] { return make_host_backend(options, {})->devices()->at(0); };
  CHECK(info().name == "host");
  CHECK(info().target.is_host());
  CHECK(info().shared_memory_per_block.count == 232'448);
  CHECK(info().max_threads_per_block == 1024);
  CHECK(info().multiprocessors == 3);
  options.host.shared_memory = Bytes{100'000};
  CHECK(info().shared_memory_per_block.count == 100'000);
  options.shared_memory_limit = Bytes{200'000};
  CHECK(info().shared_memory_per_block.count == 100'000);
  options.shared_memory_limit = Bytes{50'000};
  CHECK(info().shared_memory_per_block.count == 50'000);
  options.host.mode = HostMode::threads;
  CHECK(info().multiprocessors == 1);
}

TEST_CASE("host: what does not fit is told from what is wrong") {
  RuntimeOptions options = host_options();
  options.host.shared_memory = Bytes{1000};
  const TestKernel kernel = make_kernel(options, kNothing, 64, 4, 1000);
  Plan plan = kernel.plan;
  CHECK(kernel.loaded->fit(plan));

  plan.dynamic_shared = 1001;
  const auto too_much = kernel.loaded->fit(plan);
  REQUIRE_FALSE(too_much);
  CHECK(too_much.error().code == ErrorCode::does_not_fit);
  CHECK(too_much.error().message.find("1001") != std::string::npos);
  CHECK(too_much.error().message.find("1000") != std::string::npos);
  const int params = 1;
  CHECK(kernel.loaded->explain(kernel.loaded->launch({1, 1, 1}, plan, &params, nullptr), "it", nullptr).code == ErrorCode::does_not_fit);

  plan = kernel.plan;
  plan.threads = 1025;
  const auto too_many = kernel.loaded->fit(plan);
  REQUIRE_FALSE(too_many);
  CHECK(too_many.error().code == ErrorCode::launch_failed);
  CHECK(too_many.error().message.find("1024") != std::string::npos);

  const auto code = [&](const Grid& grid, void* stream) {
    const int status = kernel.loaded->launch(grid, kernel.plan, &params, stream);
    return status == 0 ? ErrorCode::internal : kernel.loaded->explain(status, "it", stream).code;
  };
  CHECK(code({0, 1, 1}, nullptr) == ErrorCode::launch_failed);
  CHECK(code({1, 65'536, 1}, nullptr) == ErrorCode::launch_failed);
  CHECK(code({1, 1, 65'536}, nullptr) == ErrorCode::launch_failed);
  CHECK(code({0x80000000U, 1, 1}, nullptr) == ErrorCode::launch_failed);
  int other = 0;
  CHECK(code({1, 1, 1}, &other) == ErrorCode::invalid_argument);
}

TEST_CASE("host: memory, copies and events") {
  const auto backend = make_host_backend(host_options(), {});
  const DeviceId device = DeviceId::host();
  auto data = backend->allocate(device, {1000});
  REQUIRE(data);
  CHECK(reinterpret_cast<std::uintptr_t>(*data) % 256 == 0);
  REQUIRE(backend->fill(device, *data, std::byte{3}, {1000}));
  REQUIRE(backend->copy_to_device(device, *data, as_bytes("abc")));
  std::string back(5, ' ');
  REQUIRE(backend->copy_from_device(device, {reinterpret_cast<std::byte*>(back.data()), back.size()}, *data));
  CHECK(back == "abc\3\3");
  REQUIRE(backend->copy_on_device(device, static_cast<char*>(*data) + 10, *data, {4}, {}));
  REQUIRE(backend->copy_from_device(device, {reinterpret_cast<std::byte*>(back.data()), back.size()}, static_cast<char*>(*data) + 10));
  CHECK(back == "abc\3\3");
  backend->free(device, *data);

  auto nothing = backend->allocate(device, {0});
  REQUIRE(nothing);
  backend->free(device, *nothing);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)  // they end the program instead
  auto all = backend->allocate(device, {std::uint64_t{1} << 62});
  REQUIRE_FALSE(all);
  CHECK(all.error().code == ErrorCode::out_of_memory);
#endif

  auto start = backend->create_event(device);
  auto stop = backend->create_event(device);
  REQUIRE(start);
  REQUIRE(stop);
  CHECK_FALSE(backend->elapsed_milliseconds(device, *start, *stop));
  REQUIRE(backend->record_event(device, *start, {}));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  REQUIRE(backend->record_event(device, *stop, {}));
  CHECK(*backend->elapsed_milliseconds(device, *start, *stop) >= 5.0);
  backend->destroy_event(device, *start);
  backend->destroy_event(device, *stop);
  auto stream = backend->create_stream(device);
  REQUIRE(stream);
  CHECK(stream->native == nullptr);
  CHECK(backend->synchronize(device, *stream));
}

TEST_CASE("host: bytes that are no kernel object are refused") {
  const auto backend = make_host_backend(host_options(), {});
  const DeviceInfo device = backend->devices()->front();
  Artifact artifact;
  artifact.request = kernel_request(kNothing);
  for (const std::string_view bytes : {"", "not an object",
                                       "\x7f"
                                       "ELF"}) {
    artifact.binary.assign(as_bytes(bytes).begin(), as_bytes(bytes).end());
    const auto loaded = backend->load(device, artifact);
    REQUIRE_FALSE(loaded);
    CHECK(loaded.error().code == ErrorCode::load_failed);
  }
  auto good = backend->compiler().compile(artifact.request);
  REQUIRE(good);
  artifact.binary = good->binary;
  Plan plan;
  plan.version = Plan::kVersion;
  plan.params_bytes = 8;
  artifact.plans = {plan};
  const auto mismatch = backend->load(device, artifact);
  REQUIRE_FALSE(mismatch);
  CHECK(mismatch.error().code == ErrorCode::load_failed);
  CHECK(mismatch.error().message.find("8 bytes") != std::string::npos);
  CHECK(mismatch.error().message.find("takes 4") != std::string::npos);

  artifact.binary.resize(artifact.binary.size() / 2);
  CHECK_FALSE(backend->load(device, artifact));
}

TEST_CASE("host: kernels loaded one after another and side by side keep apart") {
  const auto source = [](int value) {
    return "struct Params { int* out; };\n"
           "template <int n> __noinline__ int counted() { static int calls = " +
           std::to_string(value) +
           "; return calls++; }\n"
           "extern \"C\" __global__ void entry(const __grid_constant__ Params p) { if (p.out) *p.out = counted<1>(); }\n";
  };
  struct Params {
    int* out;
  };
  const auto run = [](const TestKernel& kernel) {
    int out = -1;
    CHECK(kernel.launch({1, 1, 1}, Params{&out}) == 0);
    return out;
  };
  for (int round = 0; round < 3; ++round) CHECK(run(make_kernel(host_options(), source(10 * round), 1, 8)) == 10 * round);
  const TestKernel one = make_kernel(host_options(), source(100), 1, 8);
  const TestKernel two = make_kernel(host_options(), source(200), 1, 8);
  const TestKernel again = make_kernel(host_options(), source(100), 1, 8);
  CHECK(run(one) == 100);
  CHECK(run(two) == 200);
  CHECK(run(one) == 101);
  CHECK(run(again) == 100);
}

}  // namespace
}  // namespace kernwright::test
