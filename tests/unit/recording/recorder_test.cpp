// The recorder over the fake CUDA driver and over a file system that fails.
#include "recording/recorder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "fixtures/faulty_file_system.hpp"
#include "fixtures/log_lines.hpp"
#include "fixtures/temporary_folder.hpp"
#include "support/safetensors.hpp"
#include "unit/cuda/fake_driver_fixture.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::exists(folder)) return files;
  for (const auto& each : std::filesystem::directory_iterator(folder)) files.push_back(each.path());
  std::ranges::sort(files);
  return files;
}

/// A call with one strided input of 4 x 8 elements and one dense output, on device 0 of the fake driver.
struct Fixture {
  fake_cuda::Control& driver = kernwright::testing::fake_driver();
  std::shared_ptr<Backend> backend = kernwright::testing::fake_backend();
  std::shared_ptr<FaultyFileSystem> files = std::make_shared<FaultyFileSystem>();
  TemporaryFolder folder;
  LogLines log;
  std::vector<std::int32_t> values = std::vector<std::int32_t>(4 * 16);
  void* input = nullptr;
  void* output = nullptr;

  Fixture() {
    std::iota(values.begin(), values.end(), 100);
    const auto device = DeviceId::cuda(0);
    input = *backend->allocate(device, Bytes{values.size() * 4});
    output = *backend->allocate(device, Bytes{32});
    REQUIRE(backend->copy_to_device(device, input, std::as_bytes(std::span(values))));
    REQUIRE(backend->fill(device, output, std::byte{7}, Bytes{32}));
  }
  ~Fixture() {
    backend->free(DeviceId::cuda(0), input);
    backend->free(DeviceId::cuda(0), output);
  }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  [[nodiscard]] RecordedCall call(StreamHandle stream = {}) const {
    const TensorView strided{input, DType::i32, 2, {4, 8}, {16, 1}};
    return {DeviceId::cuda(0),
            stream,
            {{"in", strided, false}, {"out", TensorView::contiguous(output, DType::i32, {8}), true}},
            {{"what", "a \"test\""}}};
  }
  [[nodiscard]] std::unique_ptr<Recorder> recorder(int calls, Bytes limit = mebibytes(1)) {
    return std::make_unique<Recorder>(RecordOptions{"sparse_mla", calls, folder.path() / "recordings", limit}, files, Clock::system(),
                                      log.logger());
  }
  [[nodiscard]] std::vector<std::filesystem::path> recorded() const { return files_in(folder.path() / "recordings"); }
};

}  // namespace

TEST_CASE(
    "recorder: a strided tensor is copied behind its stream and lies dense in the file, with the metadata, and no more than so many "
    "calls") {
  Fixture f;
  auto recorder = f.recorder(2);
  for (int i = 0; i < 4; ++i) recorder->record(f.backend, f.call());
  CHECK_FALSE(recorder->wants_more());
  recorder.reset();
  REQUIRE(f.recorded().size() == 2);
  CHECK(f.driver.calls("cuMemcpy2DAsync") == 2);
  CHECK(f.driver.calls("cuMemcpyDtoHAsync") == 2);
  CHECK(f.driver.calls("cuMemcpyDtoH") == 0);         // it would wait for the device
  CHECK(f.driver.calls("cuStreamSynchronize") <= 2);  // of the fixture's own copies
  CHECK(f.driver.calls("cuMemHostAlloc") == f.driver.calls("cuMemFreeHost"));
  CHECK(f.driver.calls("cuEventCreate") == f.driver.calls("cuEventDestroy"));
  const auto file = support::SafetensorsFile::open(f.recorded().front());
  REQUIRE_MESSAGE(file, (file ? "" : file.error().message));
  CHECK(file->header().metadata.at("what") == "a \"test\"");
  const auto* const in = file->header().find("in");
  REQUIRE((in != nullptr) == true);
  CHECK(in->shape == std::vector<std::int64_t>{4, 8});
  const auto read = file->read<std::int32_t>(*in);
  REQUIRE(read);
  for (std::size_t row = 0; row < 4; ++row) {
    for (std::size_t k = 0; k < 8; ++k) CHECK((*read)[row * 8 + k] == f.values[row * 16 + k]);
  }
  CHECK(file->read<std::int32_t>(*file->header().find("out"))->front() == 0x07070707);
  CHECK(f.log.count(LogLevel::warn) == 0);
}

TEST_CASE("recorder: a capturing stream is left alone, with one warning, and the call does not count") {
  Fixture f;
  auto recorder = f.recorder(1);
  const CUstream stream = f.driver.make_stream(0);
  f.driver.set_stream_capturing(stream, true);
  for (int i = 0; i < 3; ++i) recorder->record(f.backend, f.call({stream}));
  CHECK(f.driver.calls("cuMemcpy2DAsync") == 0);
  CHECK(f.driver.calls("cuMemHostAlloc") == 0);
  CHECK_FALSE(f.driver.capture_broken());
  CHECK(f.log.count("stream captures") == 1);
  f.driver.set_stream_capturing(stream, false);
  recorder->record(f.backend, f.call({stream}));
  recorder.reset();
  CHECK(f.recorded().size() == 1);
}

TEST_CASE("recorder: another stream's capture in global mode is not broken") {
  Fixture f;
  f.driver.set_global_capture(true);
  auto recorder = f.recorder(1);
  recorder->record(f.backend, f.call());
  recorder.reset();
  CHECK_FALSE(f.driver.capture_broken());
  CHECK(f.recorded().size() == 1);
}

TEST_CASE("recorder: outputs are left out where only the inputs fit, and a call that does not fit is not saved") {
  Fixture f;
  auto first = f.recorder(9);
  first->record(f.backend, f.call());
  first.reset();
  const std::uint64_t whole = std::filesystem::file_size(f.recorded().front());
  std::filesystem::remove(f.recorded().front());
  auto recorder = f.recorder(9, Bytes{whole + whole - 32});
  for (int i = 0; i < 4; ++i) recorder->record(f.backend, f.call());
  CHECK(recorder->wants_more());
  recorder.reset();
  REQUIRE(f.recorded().size() == 2);
  std::uint64_t sizes = 0;
  int with_output = 0;
  for (const auto& each : f.recorded()) {
    sizes += std::filesystem::file_size(each);
    with_output += support::SafetensorsFile::open(each)->header().find("out") != nullptr ? 1 : 0;
  }
  CHECK(with_output == 1);
  CHECK(sizes <= whole + whole - 32);
  CHECK(f.log.count("KERNWRIGHT_RECORD_LIMIT") == 1);
}

TEST_CASE("recorder: a file that cannot be written is one warning, ends the recording and leaves nothing behind") {
  Fixture f;
  f.files->fail_kind(FileOperation::publish, ENOSPC);
  auto recorder = f.recorder(100);
  for (int i = 0; i < 5; ++i) recorder->record(f.backend, f.call());
  while (recorder->wants_more()) std::this_thread::yield();
  recorder->record(f.backend, f.call());
  recorder.reset();
  CHECK(f.recorded().empty());
  CHECK(f.log.count("No more calls are recorded") == 1);
  CHECK(f.log.count("No space left on device") == 1);
  CHECK(f.driver.calls("cuMemHostAlloc") == f.driver.calls("cuMemFreeHost"));
}

TEST_CASE("recorder: what the driver refuses is one warning, and a device that failed gives no file") {
  Fixture f;
  auto recorder = f.recorder(3);
  f.driver.script("cuMemHostAlloc", CUDA_ERROR_OUT_OF_MEMORY, 2);
  recorder->record(f.backend, f.call());
  recorder->record(f.backend, f.call());
  CHECK(f.log.count("could not be recorded") == 1);
  f.driver.script("cuMemcpy2DAsync", CUDA_ERROR_INVALID_VALUE);
  recorder->record(f.backend, f.call());
  f.driver.script("cuEventSynchronize", CUDA_ERROR_ILLEGAL_ADDRESS, 1);
  recorder->record(f.backend, f.call());
  recorder.reset();
  CHECK(f.recorded().size() <= 1);  // the scripted wait was met by either of the last two
  CHECK(f.driver.calls("cuMemHostAlloc") == f.driver.calls("cuMemFreeHost") + 2);
}
