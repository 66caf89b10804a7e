#include "backend/cuda/loaded_kernel.hpp"

#include <cstring>
#include <thread>
#include <vector>

#include "fake_driver_fixture.hpp"

using namespace kernwright;
using namespace kernwright::testing;

namespace {

struct Params {
  long first = 0;
  long second = 0;
};

}  // namespace

TEST_CASE("cuda load: is eager, and its failures say kernel, target, device and the driver's words") {
  auto& driver = fake_driver();
  {
    const auto loaded = prepared();
    CHECK(driver.calls("cuKernelGetFunction") == 1);
    CHECK(driver.loaded_libraries() == 1);
  }
  CHECK(driver.loaded_libraries() == 0);

  const auto backend = fake_backend();
  const auto device = backend->devices()->front();
  auto broken = fake_artifact();
  broken.binary.front() = std::byte{0};
  const auto image = backend->load(device, broken);
  REQUIRE_FALSE(image.has_value());
  CHECK(image.error().code == ErrorCode::load_failed);
  for (const char* part : {"test/kernel mma:m64n32s2w8", "sm_90a", "cuda:0", "Fake H200", "CUDA_ERROR_INVALID_IMAGE (200)"}) {
    CAPTURE(part);
    CHECK(says(image.error(), part));
  }
  CHECK_FALSE(says(image.error(), "older"));

  auto renamed = fake_artifact("kernel");
  renamed.request.entry = "another";
  const auto entry = backend->load(device, renamed);
  REQUIRE_FALSE(entry.has_value());
  CHECK(entry.error().code == ErrorCode::load_failed);
  CHECK(says(entry.error(), "entry 'another'"));
  CHECK(driver.loaded_libraries() == 0);

  auto empty = fake_artifact();
  empty.binary.clear();
  CHECK(backend->load(device, empty).error().code == ErrorCode::load_failed);
  driver.script("cuKernelGetFunction", CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(backend->load(device, fake_artifact()).error().code == ErrorCode::out_of_memory);
  CHECK(driver.loaded_libraries() == 0);
}

TEST_CASE("cuda load: a driver older than the compiler is named as the reason") {
  auto& driver = fake_driver();
  driver.set_version(12040);
  driver.script("cuLibraryLoadData", CUDA_ERROR_NO_BINARY_FOR_GPU);
  const auto backend = fake_backend();
  const auto refused = backend->load(backend->devices()->front(), fake_artifact());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::unsupported);  // so that nothing is built anew
  CHECK(says(refused.error(), "The driver supports CUDA 12.4, older than the NVRTC 13.0"));
}

TEST_CASE("cuda fit: raises the limit, asks for occupancy, launches one empty problem and leaves the thread as it was") {
  auto& driver = fake_driver();
  driver.set_params_bytes(16);
  const auto loaded = prepared();
  const auto fitted = loaded.kernel->fit(plan(256, 100000));
  REQUIRE_MESSAGE(fitted.has_value(), fitted.error().message);
  CHECK(driver.shared_memory_limits() == std::vector<int>{100000});
  const auto launches = driver.launches();
  REQUIRE(launches.size() == 1);
  CHECK(launches[0].grid[0] == 1);
  CHECK(launches[0].block == 256);
  CHECK(launches[0].shared == 100000);
  CHECK(launches[0].stream != nullptr);
  for (const unsigned char byte : launches[0].params) CHECK(byte == 0);
  CHECK(driver.live_streams() == 0);
  CHECK(driver.stack_depth() == 0);
  CHECK(driver.capture_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST_CASE("cuda fit: shared memory above the device's limit does not fit, by its numbers, before any driver call") {
  auto& driver = fake_driver();
  const auto loaded = prepared(0, fake_artifact("kernel", 2048));
  const auto calls = driver.calls("cuKernelSetAttribute");
  const auto refused = loaded.kernel->fit(plan(128, 232448 - 2047));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::does_not_fit);
  for (const char* part : {"232449 bytes", "2048 static", "230401 dynamic", "the limit is 232448"}) CHECK(says(refused.error(), part));
  CHECK(driver.calls("cuKernelSetAttribute") == calls);
  CHECK(loaded.kernel->fit(plan(128, 232448 - 2048)).has_value());
  CHECK(loaded.kernel->fit(plan(2048, 0)).error().code == ErrorCode::does_not_fit);
  CHECK(loaded.kernel->fit(plan(0, 0)).error().code == ErrorCode::load_failed);
}

TEST_CASE("cuda fit: what makes the dispatcher step down, and what does not") {
  auto& driver = fake_driver();
  const auto loaded = prepared();
  int bytes = 65536;
  const auto code_after = [&](const char* function, CUresult result) {
    driver.script(function, result);
    bytes += 1024;  // a limit that was raised is not set again
    const auto fitted = loaded.kernel->fit(plan(128, bytes));
    REQUIRE_FALSE(fitted.has_value());
    return fitted.error().code;
  };
  CHECK(code_after("cuKernelSetAttribute", CUDA_ERROR_INVALID_VALUE) == ErrorCode::does_not_fit);
  CHECK(code_after("cuLaunchKernel", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) == ErrorCode::does_not_fit);
  CHECK(code_after("cuStreamSynchronize", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) == ErrorCode::does_not_fit);
  driver.set_occupancy(0);
  const auto unoccupied = loaded.kernel->fit(plan(128, 65536));
  CHECK(unoccupied.error().code == ErrorCode::does_not_fit);
  CHECK(says(unoccupied.error(), "occupancy 0"));
  driver.set_occupancy(-1);

  CHECK(code_after("cuKernelSetAttribute", CUDA_ERROR_OUT_OF_MEMORY) != ErrorCode::does_not_fit);
  CHECK(code_after("cuLaunchKernel", CUDA_ERROR_INVALID_VALUE) == ErrorCode::launch_failed);
  CHECK(code_after("cuLaunchKernel", CUDA_ERROR_OUT_OF_MEMORY) == ErrorCode::out_of_memory);
  CHECK(code_after("cuOccupancyMaxActiveBlocksPerMultiprocessor", CUDA_ERROR_INVALID_VALUE) == ErrorCode::launch_failed);
  CHECK(code_after("cuStreamSynchronize", CUDA_ERROR_ILLEGAL_ADDRESS) == ErrorCode::device_fault);
  CHECK(driver.live_streams() == 0);
  CHECK(driver.stack_depth() == 0);
  CHECK(loaded.kernel->fit(plan(128, 65536)).has_value());
}

TEST_CASE("cuda fit: a kernel that faults in its probe is a device fault, once and for every call after") {
  auto& driver = fake_driver();
  const auto loaded = prepared();
  driver.fault_on_next_launch();
  CHECK(loaded.kernel->fit(plan()).error().code == ErrorCode::device_fault);
  CHECK(loaded.kernel->fit(plan()).error().code == ErrorCode::device_fault);
}

TEST_CASE("cuda fit: two threads only ever raise the shared-memory limit") {
  auto& driver = fake_driver();
  const auto loaded = prepared();
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const int bytes = t == 0 ? 50000 + (i * 7919) % 150000 : 200000 - (i * 104729) % 150000;
        if (!loaded.kernel->fit(plan(128, bytes)).has_value()) FAIL_CHECK("did not fit: " << bytes);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const auto limits = driver.shared_memory_limits();
  REQUIRE_FALSE(limits.empty());
  for (std::size_t i = 1; i < limits.size(); ++i) CHECK(limits[i] > limits[i - 1]);
}

TEST_CASE("cuda load and fit: do not disturb a capture that goes on in the process") {
  auto& driver = fake_driver();
  const auto backend = fake_backend();
  const auto device = backend->devices()->front();
  driver.set_global_capture(true);
  auto kernel = backend->load(device, fake_artifact());
  REQUIRE_MESSAGE(kernel.has_value(), kernel.error().message);
  CHECK((*kernel)->fit(plan(128, 65536)).has_value());
  kernel->reset();
  CHECK_FALSE(driver.capture_broken());
  CHECK(driver.capture_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST_CASE("cuda launch: hands grid, block, shared memory, parameters and stream to the driver") {
  auto& driver = fake_driver();
  driver.set_params_bytes(sizeof(Params));
  const auto loaded = prepared();
  const CUstream stream = driver.make_stream(0);
  const Params params{11, 22};
  REQUIRE(loaded.kernel->launch(Grid{1000, 3, 2}, plan(96, 4096), &params, stream) == 0);
  const auto launches = driver.launches();
  REQUIRE(launches.size() == 1);
  CHECK(launches[0].grid[0] == 1000);
  CHECK(launches[0].grid[1] == 3);
  CHECK(launches[0].grid[2] == 2);
  CHECK(launches[0].block == 96);
  CHECK(launches[0].shared == 4096);
  CHECK(launches[0].stream == stream);
  CHECK(launches[0].cluster == 0);
  CHECK_FALSE(launches[0].programmatic);
  CHECK(std::memcmp(launches[0].params, &params, sizeof params) == 0);
}

TEST_CASE("cuda launch: on a capturing stream, by a thread whose mode is global, leaves the capture whole") {
  auto& driver = fake_driver();
  driver.set_devices({fake_cuda::Device{}, fake_cuda::Device{}});
  const auto loaded = prepared();
  const Params params;
  for (const int device : {0, 1}) {
    const CUstream stream = driver.make_stream(device);
    driver.set_stream_capturing(stream, true);
    driver.set_global_capture(true);
    // Also the refusal of another device's stream must not cost its owner the capture.
    CHECK((loaded.kernel->launch(Grid{}, plan(), &params, stream) == 0) == (device == 0));
    CHECK_FALSE(driver.capture_broken());
    CHECK(driver.capture_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL);
    driver.set_global_capture(false);
  }
  CHECK(driver.launches().size() == 1);
}

TEST_CASE("cuda launch: a plan's cluster and programmatic launch become attributes, also in the probe") {
  auto& driver = fake_driver();
  const auto loaded = prepared();
  Plan clustered = plan();
  clustered.cluster = 4;
  clustered.programmatic_launch = 1;
  const auto fitted = loaded.kernel->fit(clustered);
  REQUIRE_MESSAGE(fitted.has_value(), fitted.error().message);
  const Params params;
  REQUIRE(loaded.kernel->launch(Grid{8, 1, 1}, clustered, &params, driver.make_stream(0)) == 0);
  const auto launches = driver.launches();
  REQUIRE(launches.size() == 2);
  CHECK(launches[0].grid[0] == 4);
  for (const auto& launch : launches) {
    CHECK(launch.cluster == 4);
    CHECK(launch.programmatic);
  }
  CHECK(driver.calls("cuLaunchKernel") == 0);
}

TEST_CASE("cuda launch: from a fresh thread, or with another device current, the stream decides") {
  auto& driver = fake_driver();
  driver.set_devices({fake_cuda::Device{}, fake_cuda::Device{}});
  const auto loaded = prepared(1);
  const CUstream stream = driver.make_stream(1);
  const Params params;
  std::thread([&] { CHECK(loaded.kernel->launch(Grid{}, plan(), &params, stream) == 0); }).join();
  driver.make_current(0);
  CHECK(loaded.kernel->launch(Grid{}, plan(), &params, stream) == 0);
  CHECK(driver.current_device() == 0);
  for (const auto& launch : driver.launches()) CHECK(launch.device == 1);
}

TEST_CASE("cuda launch: a stream or current context of another device is refused, and the error names both") {
  for (const char* path : {KERNWRIGHT_FAKE_CUDA_WHOLE, KERNWRIGHT_FAKE_CUDA_OLD}) {
    CAPTURE(path);
    auto& driver = fake_driver(path);
    driver.set_version(12000);
    driver.set_devices({fake_cuda::Device{}, fake_cuda::Device{}});
    const auto loaded = prepared(0, fake_artifact(), path);
    const Params params;
    const CUstream own = driver.make_stream(0);
    CHECK(loaded.kernel->launch(Grid{}, plan(), &params, own) == 0);
    const CUstream other = driver.make_stream(1);
    const int status = loaded.kernel->launch(Grid{}, plan(), &params, other);
    REQUIRE(status != 0);
    const Error error = loaded.kernel->explain(status, "test/kernel [heads=8] grid 1x1x1", other);
    CHECK(error.code == ErrorCode::invalid_argument);
    CHECK(says(error, "test/kernel [heads=8] grid 1x1x1"));
    CHECK(says(error, "cuda:0"));
    CHECK(says(error, "cuda:1"));

    driver.make_current(1);
    const int on_default = loaded.kernel->launch(Grid{}, plan(), &params, nullptr);
    REQUIRE(on_default != 0);
    const Error context = loaded.kernel->explain(on_default, "test/kernel", nullptr);
    CHECK(context.code == ErrorCode::invalid_argument);
    CHECK(says(context, "cuda:0"));
    CHECK(says(context, "cuda:1"));
    CHECK(driver.current_device() == 1);
    CHECK(driver.launches().size() == 1);
  }
}

TEST_CASE("cuda launch: the default streams use the current context, and the device's primary one where there is none") {
  auto& driver = fake_driver();
  const auto loaded = prepared();
  const Params params;
  for (const CUstream stream : {static_cast<CUstream>(nullptr), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    for (const int current : {-1, 0}) {
      driver.make_current(current);
      CHECK(loaded.kernel->launch(Grid{}, plan(), &params, stream) == 0);
      CHECK(driver.current_device() == current);
      CHECK(driver.launches().back().stream == stream);
      CHECK(driver.launches().back().device == 0);
    }
  }
}

TEST_CASE("cuda launch: refusals are explained by kind, with kernel, grid and the driver's code and text") {
  auto& driver = fake_driver();
  const auto loaded = prepared();
  const CUstream stream = driver.make_stream(0);
  const Params params;
  const auto explained = [&](CUresult result) {
    driver.script("cuLaunchKernel", result);
    const int status = loaded.kernel->launch(Grid{7, 1, 1}, plan(), &params, stream);
    REQUIRE(status != 0);
    return loaded.kernel->explain(status, "test/kernel [heads=8] grid 7x1x1", stream);
  };
  const Error resources = explained(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  CHECK(resources.code == ErrorCode::does_not_fit);
  for (const char* part : {"test/kernel [heads=8] grid 7x1x1", "cuda:0", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)"})
    CHECK(says(resources, part));
  const Error fault = explained(CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(fault.code == ErrorCode::device_fault);
  CHECK(says(fault, "an illegal memory access was encountered"));
  CHECK(explained(CUDA_ERROR_INVALID_VALUE).code == ErrorCode::launch_failed);
  CHECK(explained(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED).code == ErrorCode::capturing);
  // A code that this driver itself does not know still has a number.
  CHECK(says(explained(static_cast<CUresult>(998)), "(998)"));
}

TEST_CASE("cuda launch: a kernel outlives the backend that loaded it") {
  auto& driver = fake_driver();
  auto loaded = prepared();
  loaded.backend.reset();
  const Params params;
  CHECK(loaded.kernel->launch(Grid{}, plan(), &params, driver.make_stream(0)) == 0);
  loaded.kernel.reset();
  CHECK(driver.loaded_libraries() == 0);
  CHECK(driver.retained_contexts() == 0);
}
