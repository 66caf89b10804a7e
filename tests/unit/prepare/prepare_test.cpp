#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cases/scale_template.hpp"
#include "cases/step_down_cases.hpp"
#include "kernwright/runtime.hpp"

using namespace kernwright;
using cases::ScaleParams;

namespace {

struct Lines {
  std::mutex mutex;
  std::vector<std::string> all;
  [[nodiscard]] std::size_t containing(const std::string& text) {
    const std::lock_guard lock(mutex);
    std::size_t n = 0;
    for (const std::string& line : all) n += line.find(text) != std::string::npos ? 1 : 0;
    return n;
  }
};

Runtime host_runtime(RuntimeOptions options, Lines* lines = nullptr) {
  if (lines != nullptr) {
    options.log = [lines](LogLevel, std::string_view line) {
      const std::lock_guard lock(lines->mutex);
      lines->all.emplace_back(line);
    };
  }
  auto runtime = Runtime::create(std::move(options));
  REQUIRE(runtime);
  REQUIRE(runtime->register_template(cases::scale_template()));
  return *runtime;
}

RuntimeOptions with_store(const std::filesystem::path& folder) {
  RuntimeOptions options;
  options.store = folder;
  return options;
}

PrepareRequest request(const char* tile = "plain:m1n1s1w1", std::int64_t factor = 3) {
  return {"test/scale", Specialisation{}.set("factor", factor), DeviceId::host(), *Tile::parse(tile), sizeof(ScaleParams), std::nullopt};
}

std::filesystem::path only_kernel_entry(const std::filesystem::path& store, const std::string& key) {
  return store / "entries" / key.substr(0, 2) / (key + ".kwe");
}

}  // namespace

TEST_CASE("prepare: built, then from memory, then from the store") {
  const cases::TemporaryFolder store;
  const Runtime first = host_runtime(with_store(store.path()));
  auto kernel = first.prepare(request());
  REQUIRE_MESSAGE(kernel, (kernel ? "" : kernel.error().text()));
  CHECK(kernel->report().cache == CacheSource::built);
  CHECK(kernel->report().compile_ms > 0);
  CHECK(kernel->plan().threads == 32);
  CHECK(first.counters().compiles == 2);  // the plans and the kernel
  CHECK(first.prepare(request()));
  CHECK(first.counters().compiles == 2);
  CHECK(cases::scales_rightly(first, DeviceId::host(), *kernel, 3));
  CHECK(first.counters().launches.at("test/scale") == 1);

  const Runtime second = host_runtime(with_store(store.path()));
  auto again = second.prepare(request());
  REQUIRE(again);
  CHECK(again->report().cache == CacheSource::store);
  CHECK(again->report().key == kernel->report().key);
  CHECK(again->plan() == kernel->plan());
  CHECK(second.counters().compiles == 0);
  CHECK(second.counters().store_hits == 2);
  CHECK(cases::scales_rightly(second, DeviceId::host(), *again, 3));
}

TEST_CASE("prepare: a kernel outlives its runtime") {
  std::optional<Kernel> kernel;
  {
    RuntimeOptions options;
    options.memory_only = true;
    const Runtime runtime = host_runtime(options);
    auto prepared = runtime.prepare(request());
    REQUIRE(prepared);
    kernel = *prepared;
  }
  CHECK(kernel->launch(Grid{1, 1, 1}, ScaleParams{}, {}));
}

TEST_CASE("prepare: threads that ask at once build each thing once") {
  const cases::TemporaryFolder store;
  const Runtime runtime = host_runtime(with_store(store.path()));
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { good += runtime.prepare(request()).has_value() ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good == 8);
  CHECK(runtime.counters().compiles == 2);
  CHECK(runtime.counters().misses == 2);
}

TEST_CASE("prepare: a damaged entry is built anew, replaced, and said once") {
  const cases::TemporaryFolder store;
  const std::string key = host_runtime(with_store(store.path())).prepare(request())->report().key;
  const auto path = only_kernel_entry(store.path(), key);
  REQUIRE(std::filesystem::exists(path));
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(path) / 2));
    file.put('\x55');
    file.put('\xaa');
  }
  Lines lines;
  const Runtime runtime = host_runtime(with_store(store.path()), &lines);
  auto kernel = runtime.prepare(request());
  REQUIRE(kernel);
  CHECK(kernel->report().cache == CacheSource::built);
  CHECK(runtime.counters().bad_entries == 1);
  CHECK(lines.containing(key) == 1);
  CHECK(cases::scales_rightly(runtime, DeviceId::host(), *kernel, 3));
  CHECK(host_runtime(with_store(store.path())).prepare(request())->report().cache == CacheSource::store);
}

TEST_CASE("prepare: a store that cannot be written costs one warning and nothing else") {
  const cases::TemporaryFolder folder;
  const auto in_the_way = folder.path() / "file";
  std::ofstream(in_the_way) << "not a folder";
  Lines lines;
  const Runtime runtime = host_runtime(with_store(in_the_way / "store"), &lines);
  auto kernel = runtime.prepare(request());
  REQUIRE_MESSAGE(kernel, (kernel ? "" : kernel.error().text()));
  CHECK(cases::scales_rightly(runtime, DeviceId::host(), *kernel, 3));
  CHECK(runtime.counters().store_warnings >= 1);
  CHECK(lines.containing("going on") == 1);
  CHECK(lines.all.size() == 1);
}

TEST_CASE("prepare: parameters, tiles and templates that are wrong are named") {
  RuntimeOptions options;
  options.memory_only = true;
  const Runtime runtime = host_runtime(options);
  const auto refused = [&](PrepareRequest wrong, ErrorCode code, const std::string& word) {
    auto kernel = runtime.prepare(wrong);
    REQUIRE_FALSE(kernel);
    CHECK_MESSAGE(kernel.error().code == code, kernel.error().text());
    CHECK_MESSAGE(kernel.error().text().find(word) != std::string::npos, kernel.error().text());
  };
  PrepareRequest wrong = request();
  wrong.template_name = "test/scales";
  refused(wrong, ErrorCode::not_found, "test/scale");
  refused(request("plain:m1n1s1w1", 1001), ErrorCode::invalid_argument, "1000");
  refused(request("plain:m1n2s1w1"), ErrorCode::invalid_argument, "40");
  refused(request("other:m1n1s1w1"), ErrorCode::invalid_argument, "plain");
  wrong = request();
  wrong.specialisation.set("unknown", 1);
  refused(wrong, ErrorCode::invalid_argument, "unknown");
  wrong = request();
  wrong.params_bytes = 8;
  refused(wrong, ErrorCode::load_failed, "24");
  wrong = request();
  wrong.device = DeviceId{BackendKind::host, 3};
  refused(wrong, ErrorCode::not_found, "host");
}

TEST_CASE("prepare: a launch checks the parameter struct and the grid") {
  RuntimeOptions options;
  options.memory_only = true;
  auto kernel = host_runtime(options).prepare(request());
  REQUIRE(kernel);
  CHECK_FALSE(kernel->launch(Grid{1, 1, 1}, 1, {}));
  CHECK_FALSE(kernel->launch(Grid{0, 1, 1}, ScaleParams{}, {}));
  CHECK_FALSE(kernel->launch(Grid{1, 1, 65'536}, ScaleParams{}, {}));
  CHECK_FALSE(kernel->launch(Grid{0x8000'0000U, 1, 1}, ScaleParams{}, {}));
  auto launched = kernel->launch(Grid{1, 0, 1}, ScaleParams{}, {});
  REQUIRE_FALSE(launched);
  CHECK(launched.error().text().find("test/scale") != std::string::npos);
  CHECK(launched.error().text().find("factor=3") != std::string::npos);
}

TEST_CASE("prepare: candidates behind a refused one") {
  RuntimeOptions options;
  options.memory_only = true;
  const Runtime runtime = host_runtime(options);
  PrepareRequest behind = request("plain:m1n200s1w1");
  behind.after = behind.tile;
  auto kernel = runtime.prepare(behind);
  REQUIRE(kernel);
  CHECK(kernel->report().tile_asked.text() == "plain:m1n200s1w1");
  CHECK(kernel->report().tile_fitted.text() == "plain:m1n40s1w1");
  CHECK(kernel->report().fit_reason.find("refused") != std::string::npos);
  behind.after = *Tile::parse("plain:m1n1s1w2");
  auto stranger = runtime.prepare(behind);
  REQUIRE_FALSE(stranger);
  CHECK(stranger.error().code == ErrorCode::invalid_argument);
  behind.after = *Tile::parse("plain:m1n1s1w1");
  auto none = runtime.prepare(behind);
  REQUIRE_FALSE(none);
  CHECK(none.error().code == ErrorCode::does_not_fit);
}

TEST_CASE("prepare: a tuning table of the user's chooses the tile, and an illegal one is passed over with a note") {
  const cases::TemporaryFolder folder;
  std::ofstream(folder.path() / "mine.toml")
      << "format = 1\n[[tile]]\ntemplate = \"test/scale\"\nwhen = { factor = 3 }\ntarget = \"host\"\n"
         "tile = \"plain:m1n40s1w2\"\nmeasured = \"by this test\"\n"
         "[[tile]]\ntemplate = \"test/scale\"\nwhen = { factor = 4 }\ntarget = \"host\"\n"
         "tile = \"plain:m1n41s1w2\"\nmeasured = \"by this test\"\n";
  RuntimeOptions options;
  options.memory_only = true;
  options.tuning_folder = folder.path();
  Lines lines;
  const Runtime runtime = host_runtime(options, &lines);
  PrepareRequest tuned = request();
  tuned.tile.reset();
  auto kernel = runtime.prepare(tuned);
  REQUIRE_MESSAGE(kernel, (kernel ? "" : kernel.error().text()));
  CHECK(kernel->report().tile_asked.text() == "plain:m1n40s1w2");
  tuned.specialisation.set("factor", 4);
  kernel = runtime.prepare(tuned);
  REQUIRE(kernel);
  CHECK(kernel->report().tile_fitted.text() == "plain:m1n200s1w1");
  CHECK(lines.containing("m1n41") == 1);
}

TEST_CASE("warm: builds what fits a target and says what it left out") {
  const cases::TemporaryFolder store;
  const Runtime runtime = host_runtime(with_store(store.path()));
  WarmRequest warm{"test/scale", Specialisation{}.set("factor", 3), Target::host(), std::nullopt, true};
  auto items = runtime.warm(warm);
  REQUIRE_MESSAGE(items, (items ? "" : items.error().text()));
  REQUIRE(items->size() == 4);
  CHECK((*items)[0].outcome == WarmOutcome::skipped);
  CHECK((*items)[0].reason.find("1048576") != std::string::npos);
  for (std::size_t i = 1; i < 4; ++i) {
    CHECK((*items)[i].outcome == WarmOutcome::built);
    CHECK((*items)[i].key.size() == 32);
    CHECK((*items)[i].reason.empty());
  }
  const Runtime served = host_runtime(with_store(store.path()));
  REQUIRE(served.prepare(request("plain:m1n40s1w1")));
  CHECK(served.counters().store_hits >= 1);
  warm.fall_backs = false;
  items = host_runtime(with_store(store.path())).warm(warm);
  REQUIRE(items);
  CHECK(items->size() == 2);
  CHECK(items->back().cache == CacheSource::store);
}

TEST_CASE("events: of two runtimes, or never made, are refused") {
  RuntimeOptions options;
  options.memory_only = true;
  const auto one = Runtime::create(options), other = Runtime::create(options);
  REQUIRE(one);
  REQUIRE(other);
  auto start = one->create_event(DeviceId::host());
  auto stop = one->create_event(DeviceId::host());
  auto foreign = other->create_event(DeviceId::host());
  REQUIRE(start);
  REQUIRE(stop);
  REQUIRE(foreign);
  REQUIRE(start->record({}));
  REQUIRE(stop->record({}));
  REQUIRE(foreign->record({}));
  auto elapsed = stop->milliseconds_since(*start);
  REQUIRE(elapsed);
  CHECK(*elapsed >= 0);
  CHECK_FALSE(foreign->milliseconds_since(*start));
  CHECK_FALSE(stop->milliseconds_since(Event{}));
}

TEST_CASE("log: a callback that throws costs nothing but its line") {
  RuntimeOptions options;
  options.store = "/dev/null/store";
  options.log_level = LogLevel::debug;
  options.log = [](LogLevel, std::string_view) { throw std::runtime_error("no"); };
  const Runtime runtime = host_runtime(options);
  auto kernel = runtime.prepare(request());
  REQUIRE_MESSAGE(kernel, (kernel ? "" : kernel.error().text()));
  CHECK(cases::scales_rightly(runtime, DeviceId::host(), *kernel, 3));
}
