#include "backend/cuda/driver.hpp"

#include "backend/cuda/diagnosis.hpp"
#include "fake_driver_fixture.hpp"
#include "nvrtc_fixture.hpp"

using namespace kernwright;
using namespace kernwright::testing;

TEST_CASE("cuda driver: an absent one is an error that says what was looked for and what to do, making the backend needs none") {
  RuntimeOptions options;
  options.cuda_driver = "/nonexistent/libcuda.so.1";
  const auto backend = make_cuda_backend(options, Logger{});
  const auto devices = backend->devices();
  REQUIRE_FALSE(devices.has_value());
  CHECK(devices.error().code == ErrorCode::driver_unavailable);
  CHECK(says(devices.error(), "/nonexistent/libcuda.so.1"));
  CHECK(says(devices.error(), "KERNWRIGHT_CUDA_DRIVER"));
  CHECK(says(devices.error(), "Install the NVIDIA driver"));
  CHECK(backend->allocate(DeviceId::cuda(0), Bytes{16}).error().code == ErrorCode::driver_unavailable);
  CHECK_FALSE(backend->is_capturing(StreamHandle{}));
}

TEST_CASE("cuda driver: one that is too old says its version and the one needed") {
  auto& driver = fake_driver();
  driver.set_version(11080);
  const auto devices = fake_backend()->devices();
  REQUIRE_FALSE(devices.has_value());
  CHECK(devices.error().code == ErrorCode::driver_unavailable);
  CHECK(says(devices.error(), "CUDA 11.8"));
  CHECK(says(devices.error(), "12.0"));
}

TEST_CASE("cuda driver: a missing function is named, and a library that is no driver is told apart") {
  fake_driver(KERNWRIGHT_FAKE_CUDA_DAMAGED);
  const auto damaged = fake_backend({}, KERNWRIGHT_FAKE_CUDA_DAMAGED)->devices();
  REQUIRE_FALSE(damaged.has_value());
  CHECK(damaged.error().code == ErrorCode::driver_unavailable);
  CHECK(says(damaged.error(), "cuLibraryLoadData"));
  const auto other = fake_backend({}, "libm.so.6")->devices();
  REQUIRE_FALSE(other.has_value());
  CHECK(says(other.error(), "not a CUDA driver"));
}

TEST_CASE("cuda driver: one that finds no device, or does not start, says why, the next call tries again") {
  auto& driver = fake_driver();
  driver.set_devices({});
  const auto backend = fake_backend();
  const auto none = backend->devices();
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error().code == ErrorCode::driver_unavailable);
  CHECK(says(none.error(), "CUDA_ERROR_NO_DEVICE (100)"));
  CHECK(says(none.error(), "CUDA_VISIBLE_DEVICES"));
  driver.reset();
  CHECK(backend->devices().has_value());

  driver.script("cuInit", CUDA_ERROR_NOT_INITIALIZED);
  CHECK(says(fake_backend()->devices().error(), "fork"));
}

TEST_CASE("doctor: a driver older than NVRTC's major is said to refuse what NVRTC compiles") {
  if (!nvrtc_present()) return;
  auto& driver = fake_driver();
  RuntimeOptions options;
  options.cuda_driver = KERNWRIGHT_FAKE_CUDA_WHOLE;
  driver.set_version(12080);
  const CudaDiagnosis old = diagnose_cuda(options);
  CHECK(old.driver_problem.empty());
  CHECK(old.driver_version == "12.8");
  CHECK(old.driver_path == KERNWRIGHT_FAKE_CUDA_WHOLE);
  CHECK(old.mismatch.find("CUDA 12.8, older than NVRTC 13.") != std::string::npos);
  driver.set_version(13000);
  CHECK(diagnose_cuda(options).mismatch.empty());
}

TEST_CASE("cuda devices: each is described, with the target of its capability") {
  auto& driver = fake_driver();
  driver.set_devices({{"H200", 9, 0, 232448, 1024, 132, 62914560, 1 << 30},
                      {"L40", 8, 9, 101376, 1024, 142, 100663296, 1 << 29},
                      {"Orin", 8, 7, 166912, 1024, 16, 4194304, 1 << 28},
                      {"B300", 10, 3, 232448, 1024, 148, 1 << 27, 1 << 30},
                      {"Next", 10, 7, 232448, 1024, 148, 1 << 27, 1 << 30},
                      {"P40", 6, 1, 49152, 1024, 30, 3145728, 1 << 30}});
  const auto backend = fake_backend();
  const auto devices = backend->devices();
  REQUIRE_MESSAGE(devices.has_value(), devices.error().message);
  REQUIRE(devices->size() == 6);
  const DeviceInfo& first = devices->front();
  CHECK(first.id == DeviceId::cuda(0));
  CHECK(first.name == "H200");
  CHECK(first.capability_major == 9);
  CHECK(first.shared_memory_per_block == Bytes{232448});
  CHECK(first.max_threads_per_block == 1024);
  CHECK(first.multiprocessors == 132);
  CHECK(first.l2 == Bytes{62914560});
  CHECK(first.memory == Bytes{1 << 30});
  const char* targets[] = {"sm_90a", "sm_89", "sm_87", "sm_103a", "sm_100f"};
  for (std::size_t i = 0; i < 5; ++i) CHECK((*devices)[i].target.name() == targets[i]);
  // An old card is listed and does not hide the others; it is refused by name when a kernel is to be loaded.
  const auto refused = backend->load((*devices)[5], fake_artifact());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::unsupported);
  CHECK(says(refused.error(), "P40"));
  CHECK(says(refused.error(), "6.1"));
  CHECK(driver.retained_contexts() == 0);  // listing creates no context
}

TEST_CASE("cuda devices: the shared-memory option lowers the limit and never raises it") {
  fake_driver();
  RuntimeOptions options;
  options.shared_memory_limit = Bytes{101376};
  CHECK(fake_backend(options)->devices()->front().shared_memory_per_block == Bytes{101376});
  options.shared_memory_limit = Bytes{1 << 20};
  CHECK(fake_backend(options)->devices()->front().shared_memory_per_block == Bytes{232448});
}

TEST_CASE("cuda devices: an ordinal that is not there names what is") {
  fake_driver();
  const auto backend = fake_backend();
  const auto absent = backend->allocate(DeviceId::cuda(3), Bytes{16});
  REQUIRE_FALSE(absent.has_value());
  CHECK(absent.error().code == ErrorCode::not_found);
  CHECK(says(absent.error(), "cuda:3"));
  CHECK(backend->allocate(DeviceId::host(), Bytes{16}).error().code == ErrorCode::invalid_argument);
}

TEST_CASE("cuda memory: bytes go there and back, from a thread with any context, which is left as it was") {
  auto& driver = fake_driver();
  driver.set_devices({fake_cuda::Device{}, fake_cuda::Device{}});
  const auto backend = fake_backend();
  for (const int current : {-1, 0, 1}) {
    driver.make_current(current);
    const auto data = backend->allocate(DeviceId::cuda(1), Bytes{4});
    REQUIRE(data.has_value());
    const std::byte sent[4] = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
    CHECK(backend->copy_to_device(DeviceId::cuda(1), *data, sent).has_value());
    std::byte got[4] = {};
    CHECK(backend->copy_from_device(DeviceId::cuda(1), got, *data).has_value());
    CHECK(std::equal(std::begin(sent), std::end(sent), std::begin(got)));
    CHECK(backend->fill(DeviceId::cuda(1), *data, std::byte{9}, Bytes{3}).has_value());
    CHECK(backend->copy_from_device(DeviceId::cuda(1), got, *data).has_value());
    CHECK(got[2] == std::byte{9});
    CHECK(got[3] == std::byte{4});
    const auto other = backend->allocate(DeviceId::cuda(1), Bytes{4});
    REQUIRE(other.has_value());
    CHECK(backend->copy_on_device(DeviceId::cuda(1), *other, *data, Bytes{4}, {}).has_value());
    CHECK(backend->fill(DeviceId::cuda(1), *data, std::byte{0}, Bytes{4}).has_value());
    CHECK(backend->copy_from_device(DeviceId::cuda(1), got, *other).has_value());
    CHECK(got[2] == std::byte{9});
    CHECK(got[3] == std::byte{4});
    backend->free(DeviceId::cuda(1), *other);
    backend->free(DeviceId::cuda(1), *data);
    CHECK(driver.current_device() == current);
    CHECK(driver.stack_depth() == (current < 0 ? 0 : 1));
    CHECK(driver.capture_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL);
  }
  CHECK(driver.calls("cuMemFree") == 6);
  const auto too_large = backend->allocate(DeviceId::cuda(0), mebibytes(1 << 20));
  REQUIRE_FALSE(too_large.has_value());
  CHECK(too_large.error().code == ErrorCode::out_of_memory);
  CHECK(says(too_large.error(), "1099511627776 bytes"));
  CHECK(backend->allocate(DeviceId::cuda(0), Bytes{0}).has_value());
}

TEST_CASE("cuda streams: are created, waited for, timed and asked whether they capture") {
  auto& driver = fake_driver();
  const auto backend = fake_backend();
  const auto device = DeviceId::cuda(0);
  const auto stream = backend->create_stream(device);
  REQUIRE(stream.has_value());
  CHECK_FALSE(backend->is_capturing(*stream));
  driver.set_stream_capturing(static_cast<CUstream>(stream->native), true);
  CHECK(backend->is_capturing(*stream));
  driver.set_stream_capturing(static_cast<CUstream>(stream->native), false);
  const auto start = backend->create_event(device);
  const auto stop = backend->create_event(device);
  REQUIRE(start.has_value());
  REQUIRE(stop.has_value());
  CHECK(backend->record_event(device, *start, *stream).has_value());
  CHECK(backend->record_event(device, *stop, *stream).has_value());
  CHECK(backend->elapsed_milliseconds(device, *start, *stop).value() == 0);
  CHECK(backend->synchronize(device, *stream).has_value());
  driver.script("cuStreamSynchronize", CUDA_ERROR_ILLEGAL_ADDRESS);
  const auto faulted = backend->synchronize(device, *stream);
  REQUIRE_FALSE(faulted.has_value());
  CHECK(faulted.error().code == ErrorCode::device_fault);
  CHECK(says(faulted.error(), "context is lost"));
  backend->destroy_event(device, *start);
  backend->destroy_event(device, *stop);
  backend->destroy_stream(device, *stream);
  CHECK(driver.live_streams() == 0);
}

TEST_CASE("cuda devices: contexts are retained once and given back with the backend") {
  auto& driver = fake_driver();
  {
    const auto one = prepared();
    CHECK(driver.retained_contexts() == 1);
    CHECK(one.backend->create_stream(DeviceId::cuda(0)).has_value());
    CHECK(driver.retained_contexts() == 1);
  }
  CHECK(driver.retained_contexts() == 0);
}
