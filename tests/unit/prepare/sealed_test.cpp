// Sealed: what the stores hold runs, nothing is compiled, and a miss says what to do.
#include <doctest/doctest.h>

#include <filesystem>

#include "cases/scale_template.hpp"
#include "cases/step_down_cases.hpp"
#include "fixtures/example_artifact.hpp"
#include "fixtures/fake_compiler.hpp"
#include "fixtures/log_lines.hpp"
#include "fixtures/temporary_folder.hpp"
#include "kernwright/runtime.hpp"
#include "prepare/artifact_source.hpp"
#include "store/compiler_record.hpp"

using namespace kernwright;
using namespace kernwright::tests;
using cases::ScaleParams;

namespace {

namespace fs = std::filesystem;

Runtime scale_runtime(RuntimeOptions options) {
  auto runtime = Runtime::create(std::move(options));
  REQUIRE(runtime);
  REQUIRE(runtime->register_template(cases::scale_template()));
  return *runtime;
}

PrepareRequest request(const char* tile, std::int64_t factor = 3) {
  return {"test/scale", Specialisation{}.set("factor", factor), DeviceId::host(), *Tile::parse(tile), sizeof(ScaleParams), std::nullopt};
}

/// Stores, choice and source over example artifacts, without a backend.
struct Source {
  explicit Source(std::vector<std::shared_ptr<Store>> read_only, std::shared_ptr<Store> writable, bool sealed,
                  std::optional<std::string> pick = std::nullopt, std::shared_ptr<RemoteTier> remote = nullptr)
      : counters(std::make_shared<LiveCounters>()),
        stores(std::make_shared<StoreStack>(StoreStack::Settings{std::move(read_only), std::move(writable), std::move(remote), 1},
                                            Clock::system(), counters, lines.logger())),
        compilers(std::make_shared<CompilerChoice>(stores, sealed, std::move(pick))),
        artifacts({stores, compilers, sealed, std::make_shared<CompileBudget>(1)}, counters, lines.logger()) {}

  LogLines lines;
  std::shared_ptr<LiveCounters> counters;
  std::shared_ptr<StoreStack> stores;
  std::shared_ptr<CompilerChoice> compilers;
  ArtifactSource artifacts;
};

std::shared_ptr<Store> store_in(const fs::path& folder, StoreAccess access = StoreAccess::read_write) {
  return std::make_shared<Store>(folder, FileSystem::posix(), Clock::system(), StoreSettings{.access = access});
}

/// The example by another compiler: another key, another binary.
Artifact made_by(CompilerIdentity compiler, std::size_t size) {
  Artifact artifact = example_artifact();
  artifact.compiler = std::move(compiler);
  artifact.key = entry_key(artifact.request, artifact.compiler);
  artifact.binary.assign(size, std::byte{7});
  return artifact;
}

CompilerIdentity version(std::string text) {
  CompilerIdentity compiler = example_compiler();
  compiler.version = std::move(text);
  return compiler;
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("sealed: a warm store serves a process without a compiler, step-down and fit included, a miss names the command that warms it") {
  const cases::TemporaryFolder folder;
  RuntimeOptions warm;
  warm.store = folder.path() / "baked";
  warm.read_only_stores.emplace();
  // 1 MiB does not fit, 200 KiB does: the fit is written.
  auto first = scale_runtime(warm).prepare(request("plain:m1n1024s1w1"));
  REQUIRE_MESSAGE(first, (first ? "" : first.error().text()));

  LogLines lines;
  RuntimeOptions sealed;
  sealed.read_only_stores = {folder.path() / "absent", folder.path() / "baked"};
  sealed.store = folder.path() / "writable";
  sealed.sealed = true;
  sealed.host.compiler = "/no/such/compiler";
  sealed.log = lines.callback();
  const Runtime runtime = scale_runtime(sealed);
  auto kernel = runtime.prepare(request("plain:m1n1024s1w1"));
  REQUIRE_MESSAGE(kernel, (kernel ? "" : kernel.error().text()));
  CHECK(kernel->report().cache == CacheSource::store);
  CHECK(kernel->report().tile_fitted == first->report().tile_fitted);
  CHECK(kernel->report().fit_recorded);
  CHECK(kernel->report().key == first->report().key);
  CHECK(cases::scales_rightly(runtime, DeviceId::host(), *kernel, 3));
  CHECK(runtime.counters().compiles == 0);
  CHECK(runtime.counters().store_hits == 2);
  CHECK(runtime.counters().hits_by_store == std::map<std::string, std::uint64_t>{{(folder.path() / "baked").string(), 2}});
  CHECK_FALSE(fs::exists(folder.path() / "writable"));  // nothing missed, nothing made
  CHECK(lines.count(LogLevel::warn) == 0);

  const auto miss = runtime.prepare(request("plain:m1n40s1w2"));
  REQUIRE_FALSE(miss);
  CHECK(miss.error().code == ErrorCode::sealed_miss);
  const std::string& text = miss.error().message;
  CHECK_MESSAGE(holds(text, "kernwright warm --template test/scale --specialisation \"factor=3\" --target host --tile plain:m1n40s1w2"),
                text);
  CHECK_MESSAGE(holds(text, "--templates FOLDER"), text);  // not one of the built-in templates
  CHECK_MESSAGE(holds(text, (folder.path() / "baked").string()), text);
  CHECK(runtime.counters().sealed_misses >= 1);
  CHECK(runtime.counters().compiles == 0);
  CHECK_FALSE(fs::exists(folder.path() / "writable"));

  // Not sealed, and still no compiler: the same store serves, and a miss is the compiler's absence.
  sealed.sealed = false;
  const Runtime without = scale_runtime(sealed);
  CHECK(without.prepare(request("plain:m1n1024s1w1")).has_value());
  const auto absent = without.prepare(request("plain:m1n40s1w2"));
  REQUIRE_FALSE(absent);
  CHECK(absent.error().code == ErrorCode::compiler_unavailable);
  CHECK_MESSAGE(holds(absent.error().message, "/no/such/compiler"), absent.error().message);
  CHECK_MESSAGE(holds(absent.error().message, "kernwright warm"), absent.error().message);
}

TEST_CASE("sealed: without any store that lists a compiler, the error says where it looked") {
  const cases::TemporaryFolder folder;
  RuntimeOptions options;
  options.store = folder.path() / "empty";
  options.read_only_stores.emplace();
  options.sealed = true;
  const auto kernel = scale_runtime(options).prepare(request("plain:m1n1s1w1"));
  REQUIRE_FALSE(kernel);
  CHECK(kernel.error().code == ErrorCode::sealed_miss);
  CHECK_MESSAGE(holds(kernel.error().message, (folder.path() / "empty").string()), kernel.error().message);
  CHECK_MESSAGE(holds(kernel.error().message, "KERNWRIGHT_CACHE_STORES"), kernel.error().message);
}

TEST_CASE("sealed: the compiler is not even looked for") {
  const TemporaryFolder folder;
  const auto store = store_in(folder.path());
  REQUIRE(store->publish(example_artifact()));
  Source source({}, store, true);
  FakeCompiler compiler;
  compiler.present = version("99.0");
  const auto obtained = source.artifacts.get_or_build(example_request(), compiler);
  REQUIRE_MESSAGE(obtained, (obtained ? "" : obtained.error().text()));
  CHECK(obtained->artifact->binary == example_artifact().binary);
  CHECK(compiler.identities_asked == 0);
  CHECK(compiler.compiles == 0);
}

TEST_CASE("compilers: unsealed, only the present one's entries count") {
  const TemporaryFolder folder;
  const auto store = store_in(folder.path());
  REQUIRE(store->publish(example_artifact()));
  Source source({}, store, false);
  FakeCompiler compiler;
  compiler.present = version("13.1");
  const auto obtained = source.artifacts.get_or_build(example_request(), compiler);
  REQUIRE_FALSE(obtained);
  CHECK(obtained.error().code == ErrorCode::compile_failed);
  CHECK(compiler.compiles == 1);
  compiler.present = example_compiler();
  CHECK(source.artifacts.get_or_build(example_request(), compiler).has_value());
  CHECK(compiler.compiles == 1);
}

TEST_CASE("compilers: of several that stores list, the newest one's entry counts, unless one is picked") {
  const TemporaryFolder folder;
  const auto store = store_in(folder.path());
  for (const auto& [text, size] : {std::pair{"12.9", 100}, {"13.0", 200}, {"9.2", 300}}) {
    REQUIRE(store->publish(made_by(version(text), static_cast<std::size_t>(size))));
  }
  const auto size_of = [&](std::optional<std::string> pick) -> std::size_t {
    Source source({}, store, true, std::move(pick));
    FakeCompiler compiler;
    const auto obtained = source.artifacts.get_or_build(example_request(), compiler);
    REQUIRE_MESSAGE(obtained, (obtained ? "" : obtained.error().text()));
    return obtained->artifact->binary.size();
  };
  CHECK(size_of(std::nullopt) == 200);
  CHECK(size_of("12.9") == 100);
  CHECK(size_of("nvrtc 9.2") == 300);
  CHECK(size_of(compiler_record_name(version("9.2")).substr(0, 8)) == 300);

  const auto error_of = [&](const char* pick) {
    Source source({}, store, true, pick);
    FakeCompiler compiler;
    const auto obtained = source.artifacts.get_or_build(example_request(), compiler);
    REQUIRE_FALSE(obtained);
    return obtained.error().text();
  };
  CHECK_MESSAGE(holds(error_of("13"), "13.0"), error_of("13"));
  CHECK_MESSAGE(holds(error_of("13"), "KERNWRIGHT_COMPILER=13"), error_of("13"));
  // A second build of one version is another compiler.
  CompilerIdentity twin = version("13.0");
  twin.components[0].second = "another build id";
  REQUIRE(store->publish(made_by(twin, 400)));
  CHECK_MESSAGE(holds(error_of("13.0"), "several"), error_of("13.0"));
}

TEST_CASE("stores: read-only ones are asked first, in order, a bad entry there is passed over and left alone") {
  const TemporaryFolder folder;
  const Artifact artifact = example_artifact();
  for (const char* name : {"one", "two", "writable"}) REQUIRE(store_in(folder.path() / name)->publish(artifact));
  const auto hit_in = [&](Source& source) {
    FakeCompiler compiler;
    compiler.present = example_compiler();
    const auto obtained = source.artifacts.get_or_build(example_request(), compiler);
    REQUIRE(obtained);
    const Counters counters = source.counters->read();
    REQUIRE(counters.hits_by_store.size() == 1);
    return fs::path(counters.hits_by_store.begin()->first).filename().string();
  };
  const auto open = [&] {
    return std::make_unique<Source>(
        std::vector{store_in(folder.path() / "one", StoreAccess::read_only), store_in(folder.path() / "two", StoreAccess::read_only)},
        store_in(folder.path() / "writable"), false);
  };
  CHECK(hit_in(*open()) == "one");
  const std::string hex = artifact.key.hex();
  const auto path = folder.path() / "one" / "entries" / hex.substr(0, 2) / (hex + ".kwe");
  write_file(path, "not an entry");
  auto source = open();
  CHECK(hit_in(*source) == "two");
  CHECK(source->counters->read().bad_entries == 1);
  CHECK(source->lines.containing("passed over", LogLevel::warn) == 1);
  CHECK(read_file(path) == "not an entry");
  fs::remove_all(folder.path() / "two");
  CHECK(hit_in(*open()) == "writable");
}

TEST_CASE("fits: a record that speaks of something else, under this one's name, does not decide") {
  const cases::TemporaryFolder folder;
  RuntimeOptions options;
  options.store = folder.path();
  options.read_only_stores.emplace();
  REQUIRE(scale_runtime(options).prepare(request("plain:m1n1024s1w1")));
  std::vector<fs::path> fits;
  for (const auto& entry : fs::directory_iterator(folder.path() / "fits")) fits.push_back(entry.path());
  REQUIRE(fits.size() == 1);
  std::string text = read_file(fits.front());
  const auto place = text.find("factor=3");
  REQUIRE(place != std::string::npos);
  text.replace(place, 8, "factor=4");
  text.replace(text.find("plain:m1n200s1w1"), 16, "plain:m1n1s1w1");
  write_file(fits.front(), text);
  LogLines lines;
  options.log = lines.callback();
  const Runtime runtime = scale_runtime(options);
  const auto kernel = runtime.prepare(request("plain:m1n1024s1w1"));
  REQUIRE(kernel);
  CHECK(kernel->report().tile_fitted.text() == "plain:m1n200s1w1");
  CHECK_FALSE(kernel->report().fit_recorded);
  CHECK(lines.containing("factor=4", LogLevel::warn) == 1);
}
