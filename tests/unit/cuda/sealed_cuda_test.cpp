// A sealed process on a CUDA device: a store that was warmed for its target, no NVRTC in reach.
#include "cases/scale_template.hpp"
#include "cases/step_down_cases.hpp"
#include "fake_driver_fixture.hpp"

using namespace kernwright;
using namespace kernwright::testing;

namespace {

Runtime scale_runtime(RuntimeOptions options) {
  auto runtime = Runtime::create(std::move(options));
  REQUIRE(runtime);
  REQUIRE(runtime->register_template(cases::scale_template()));
  return *runtime;
}

}  // namespace

TEST_CASE("sealed on cuda: what was warmed for the target loads and launches without NVRTC, and a refused entry is the driver's error") {
  auto& driver = fake_driver();
  const cases::TemporaryFolder store;
  const Specialisation specialisation = Specialisation{}.set("factor", 3);
  RuntimeOptions warm;
  warm.store = store.path();
  warm.read_only_stores.emplace();
  const auto device = [&] {
    RuntimeOptions options;
    options.cuda_driver = KERNWRIGHT_FAKE_CUDA_WHOLE;
    const auto info = scale_runtime(options).device(DeviceId::cuda(0));
    REQUIRE(info);
    return *info;
  }();
  // As on a build machine: no driver, the target by name.
  const auto warmed = scale_runtime(warm).warm({"test/scale", specialisation, device.target, std::nullopt, true});
  if (!warmed && warmed.error().code == ErrorCode::compiler_unavailable) {
    MESSAGE("skipped: no NVRTC here");
    return;
  }
  REQUIRE_MESSAGE(warmed.has_value(), (warmed ? "" : warmed.error().text()));

  RuntimeOptions sealed;
  sealed.cuda_driver = KERNWRIGHT_FAKE_CUDA_WHOLE;
  sealed.read_only_stores = {store.path()};
  sealed.store = store.path() / "none";
  sealed.sealed = true;
  sealed.nvrtc = "/no/such/libnvrtc.so";
  const Runtime runtime = scale_runtime(sealed);
  const PrepareRequest request{"test/scale", specialisation, DeviceId::cuda(0), std::nullopt, sizeof(cases::ScaleParams), std::nullopt};
  const auto kernel = runtime.prepare(request);
  REQUIRE_MESSAGE(kernel.has_value(), (kernel ? "" : kernel.error().text()));
  CHECK(kernel->report().cache == CacheSource::store);
  CHECK(runtime.counters().compiles == 0);
  CHECK(kernel->launch(Grid{1, 1, 1}, cases::ScaleParams{}, {}));
  CHECK(kernel->report().tile_fitted.text() == "plain:m1n200s1w1");  // 1 MiB fits no device
  CHECK(std::filesystem::exists(store.path() / "none" / "fits"));
  CHECK_FALSE(std::filesystem::exists(store.path() / "none" / "entries"));

  // An entry that the driver refuses cannot be built anew here: the driver's own words stay, with why.
  const Runtime refused = scale_runtime(sealed);
  driver.script("cuLibraryLoadData", CUDA_ERROR_INVALID_IMAGE, 1);
  const auto error = refused.prepare(request);
  REQUIRE_FALSE(error);
  CHECK_MESSAGE(error.error().code == ErrorCode::load_failed, error.error().text());
  CHECK_MESSAGE(error.error().text().find("kernwright warm --template test/scale") != std::string::npos, error.error().text());
  CHECK(refused.counters().compiles == 0);
}
