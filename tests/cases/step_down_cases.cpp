#include "cases/step_down_cases.hpp"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "cases/scale_template.hpp"

namespace kernwright::cases {
namespace {

constexpr std::int64_t kFactor = 7;
const char* const kLargest = "plain:m1n1024s1w1";  // 1 MiB of shared memory: no device has it

Runtime runtime_with(const std::filesystem::path& store, const std::string& comment = "", std::optional<Bytes> limit = std::nullopt) {
  RuntimeOptions options;
  options.store = store;
  options.shared_memory_limit = limit;
  auto runtime = Runtime::create(options);
  REQUIRE(runtime);
  REQUIRE(runtime->register_template(scale_template(comment)));
  return *runtime;
}

PrepareRequest scale_request(DeviceId device) {
  return {"test/scale", Specialisation{}.set("factor", kFactor), device, *Tile::parse(kLargest), sizeof(ScaleParams), std::nullopt};
}

Kernel prepared(const Runtime& runtime, DeviceId device) {
  auto kernel = runtime.prepare(scale_request(device));
  REQUIRE_MESSAGE(kernel, (kernel ? "" : kernel.error().text()));
  return *kernel;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "kernwright-test-XXXXXX").string();
  if (mkdtemp(name.data()) != nullptr) path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

bool scales_rightly(const Runtime& runtime, DeviceId device, const Kernel& kernel, float factor) {
  constexpr std::size_t kCount = 1000;
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) values[i] = static_cast<float>(i) - 300.0F;
  std::vector<float> results(kCount, -1.0F);
  auto in = runtime.allocate(device, Bytes{kCount * sizeof(float)});
  auto out = runtime.allocate(device, Bytes{kCount * sizeof(float)});
  auto stream = runtime.create_stream(device);
  if (!in || !out || !stream || !in->upload(std::as_bytes(std::span(values)))) return false;
  const ScaleParams params{static_cast<const float*>(in->data()), static_cast<float*>(out->data()), kCount};
  const auto blocks = static_cast<std::uint32_t>((kCount + static_cast<std::size_t>(kernel.plan().threads) - 1) /
                                                 static_cast<std::size_t>(kernel.plan().threads));
  if (auto launched = kernel.launch(Grid{blocks, 1, 1}, params, stream->handle()); !launched) {
    MESSAGE(launched.error().text());
    return false;
  }
  if (!stream->synchronize() || !out->download(std::as_writable_bytes(std::span(results)))) return false;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (results[i] != factor * values[i]) return false;
  }
  return true;
}

void fit_is_written_and_differs_from_the_tile_asked_for(DeviceId device) {
  const TemporaryFolder store;
  const Runtime runtime = runtime_with(store.path());
  const Kernel kernel = prepared(runtime, device);
  CHECK(kernel.report().tile_asked.text() == kLargest);
  CHECK(kernel.report().tile_fitted.text() == "plain:m1n200s1w1");
  CHECK(kernel.report().fit_reason.find("1048576") != std::string::npos);
  CHECK_FALSE(kernel.report().fit_recorded);
  CHECK(runtime.counters().fits_written == 1);
  CHECK(runtime.counters().step_downs == 1);
  std::size_t fits = 0;
  for (const auto& file : std::filesystem::directory_iterator(store.path() / "fits")) fits += file.path().extension() == ".toml" ? 1 : 0;
  CHECK(fits == 1);
  CHECK(scales_rightly(runtime, device, kernel, kFactor));

  // A tile that fits leaves no fit behind.
  PrepareRequest small = scale_request(device);
  small.tile = *Tile::parse("plain:m1n40s1w2");
  auto fitting = runtime.prepare(small);
  REQUIRE(fitting);
  CHECK(fitting->report().tile_fitted == *small.tile);
  CHECK(runtime.counters().fits_written == 1);
}

void next_process_starts_at_the_fit(DeviceId device) {
  const TemporaryFolder store;
  prepared(runtime_with(store.path()), device);
  const Runtime next = runtime_with(store.path());
  const Kernel kernel = prepared(next, device);
  CHECK(kernel.report().fit_recorded);
  CHECK(kernel.report().tile_asked.text() == kLargest);
  CHECK(kernel.report().tile_fitted.text() == "plain:m1n200s1w1");
  CHECK(kernel.report().cache == CacheSource::store);
  CHECK(next.counters().fits_read == 1);
  CHECK(next.counters().fits_written == 0);
  CHECK(next.counters().step_downs == 0);
  CHECK(next.counters().compiles == 0);
  CHECK(scales_rightly(next, device, kernel, kFactor));
}

void changed_source_ignores_the_fit(DeviceId device) {
  const TemporaryFolder store;
  prepared(runtime_with(store.path()), device);
  const Runtime changed = runtime_with(store.path(), "changed");
  const Kernel kernel = prepared(changed, device);
  CHECK_FALSE(kernel.report().fit_recorded);
  CHECK(changed.counters().fits_read == 0);
  CHECK(changed.counters().step_downs == 1);
  CHECK(changed.counters().fits_written == 1);
}

void oversized_grid_is_an_error_and_no_step_down(DeviceId device) {
  const TemporaryFolder store;
  const Runtime runtime = runtime_with(store.path());
  PrepareRequest request = scale_request(device);
  request.tile = *Tile::parse("plain:m1n1s1w1");
  auto kernel = runtime.prepare(request);
  REQUIRE(kernel);
  auto launched = kernel->launch(Grid{1, 65'536, 1}, ScaleParams{}, {});
  REQUIRE_FALSE(launched);
  CHECK(launched.error().code == ErrorCode::invalid_argument);
  CHECK(launched.error().text().find("65536") != std::string::npos);
  CHECK(runtime.counters().step_downs == 0);
  CHECK(runtime.counters().fits_written == 0);
}

void shared_memory_limit_decides_the_tile(DeviceId device) {
  const TemporaryFolder store;
  const Runtime limited = runtime_with(store.path(), "", kibibytes(99));
  const Kernel kernel = prepared(limited, device);
  CHECK(kernel.report().tile_fitted.text() == "plain:m1n40s1w1");
  CHECK(scales_rightly(limited, device, kernel, kFactor));
  // The fit belongs to that limit: a runtime without it starts anew.
  const Runtime unlimited = runtime_with(store.path());
  CHECK(prepared(unlimited, device).report().tile_fitted.text() == "plain:m1n200s1w1");
  CHECK(unlimited.counters().fits_read == 0);
  const Runtime tiny = runtime_with(store.path(), "", Bytes{512});
  auto refused = tiny.prepare(scale_request(device));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::does_not_fit);
  CHECK(refused.error().text().find("plain:m1n1s1w1") != std::string::npos);
}

}  // namespace kernwright::cases
