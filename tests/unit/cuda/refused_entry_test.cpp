// What prepare does when the driver refuses a binary that it did not just compile.
#include "cases/scale_template.hpp"
#include "cases/step_down_cases.hpp"
#include "fake_driver_fixture.hpp"

using namespace kernwright;
using namespace kernwright::testing;

namespace {

std::optional<Runtime> scale_runtime(const std::filesystem::path& store) {
  RuntimeOptions options;
  options.cuda_driver = KERNWRIGHT_FAKE_CUDA_WHOLE;
  options.store = store;
  auto runtime = Runtime::create(options);
  REQUIRE(runtime);
  REQUIRE(runtime->register_template(cases::scale_template()));
  return *runtime;
}

Result<Kernel> prepare_scale(const Runtime& runtime, int ordinal) {
  return runtime.prepare({"test/scale", Specialisation{}.set("factor", 3), DeviceId::cuda(ordinal), *Tile::parse("plain:m1n1s1w1"),
                          sizeof(cases::ScaleParams), std::nullopt});
}

/// Warms the store; false, with a message, where there is no NVRTC.
bool warmed(const std::filesystem::path& store) {
  const auto kernel = prepare_scale(*scale_runtime(store), 0);
  if (!kernel && kernel.error().code == ErrorCode::compiler_unavailable) {
    MESSAGE("skipped: no NVRTC here");
    return false;
  }
  REQUIRE_MESSAGE(kernel.has_value(), (kernel ? "" : kernel.error().text()));
  return true;
}

}  // namespace

TEST_CASE("prepare: a stored entry that the driver refuses is built anew once") {
  auto& driver = fake_driver();
  const cases::TemporaryFolder store;
  if (!warmed(store.path())) return;
  const auto runtime = scale_runtime(store.path());
  driver.script("cuLibraryLoadData", CUDA_ERROR_INVALID_IMAGE, 1);
  const auto kernel = prepare_scale(*runtime, 0);
  REQUIRE_MESSAGE(kernel.has_value(), (kernel ? "" : kernel.error().text()));
  CHECK(kernel->report().cache == CacheSource::built);
  CHECK(runtime->counters().compiles == 1);
  CHECK(runtime->counters().step_downs == 0);
}

TEST_CASE("prepare: an entry that is refused again after it was built anew is an error, not a smaller tile") {
  auto& driver = fake_driver();
  const cases::TemporaryFolder store;
  if (!warmed(store.path())) return;
  const auto runtime = scale_runtime(store.path());
  driver.script("cuLibraryLoadData", CUDA_ERROR_INVALID_IMAGE, 2);
  const auto kernel = prepare_scale(*runtime, 0);
  REQUIRE_FALSE(kernel);
  CHECK_MESSAGE(kernel.error().code == ErrorCode::load_failed, kernel.error().text());
  CHECK(runtime->counters().compiles == 1);
  CHECK(runtime->counters().step_downs == 0);
}

// What another request of this process read or built counts the same: the second device's load is refused here.
TEST_CASE("prepare: an artifact from memory that the driver refuses is built anew too") {
  auto& driver = fake_driver();
  driver.set_devices({fake_cuda::Device{}, fake_cuda::Device{}});
  const cases::TemporaryFolder store;
  if (!warmed(store.path())) return;
  const auto runtime = scale_runtime(store.path());
  REQUIRE(prepare_scale(*runtime, 0));
  driver.script("cuLibraryLoadData", CUDA_ERROR_INVALID_IMAGE, 1);
  const auto second = prepare_scale(*runtime, 1);
  REQUIRE_MESSAGE(second.has_value(), (second ? "" : second.error().text()));
  CHECK(second->report().cache == CacheSource::built);
  CHECK(runtime->counters().compiles == 1);
}
