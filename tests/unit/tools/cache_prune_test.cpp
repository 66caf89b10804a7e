// kernwright cache prune, clear
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "backend/backends.hpp"
#include "prepare/options.hpp"
#include "store/compiler_record.hpp"
#include "unit/tools/example_store.hpp"
#include "unit/tools/program.hpp"

using namespace kernwright;
using namespace kernwright::tests;
using Json = nlohmann::json;

namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kDay = 86'400;

std::vector<std::string> prune(const std::vector<std::string>& more) {
  std::vector<std::string> words{"cache", "prune"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("cache prune: words that are off are refused, and none at all with what is legal") {
  const TemporaryFolder folder;
  const ChildOptions store = in_store(folder.path() / "store");
  check_refused(prune({}), {"--limit SIZE", "--unused-for TIME", "--target T", "--other-compilers", "--leftovers", "--dry-run"}, store);
  check_refused(prune({"--dry-run"}), {"nothing was asked for"}, store);
  check_refused(prune({"--limit", "5 GB"}), {"--limit: '5 GB'", "K, M, G or T"}, store);
  check_refused(prune({"--unused-for", "30"}), {"--unused-for: '30'", "30d"}, store);
  check_refused(prune({"--target", "gpu"}), {"--target: ", "gpu"}, store);
  CHECK(kernwright_program(prune({"--limit", "1M"}), store).exit_code == 0);
  CHECK_FALSE(fs::exists(folder.path() / "store"));
}

TEST_CASE("cache prune: what was not used for so long leaves, what is in use stays, and both are said") {
  const TemporaryFolder folder;
  ExampleStore example(folder.path() / "store");
  const Artifact old = example_artifact(), read_lately = example_artifact_with(16, 100), in_use = example_artifact_with(32, 100);
  example.add(old, 41 * kDay + 1800);
  example.add(read_lately, 41 * kDay, 5 * kDay);
  const fs::path guarded = example.add(in_use, 50 * kDay);
  const int reader = ::open(guarded.c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(::flock(reader, LOCK_SH) == 0);
  const ChildOptions store = in_store(example.path());

  const ChildResult dry = kernwright_program(prune({"--unused-for", "30d", "--dry-run"}), store);
  CHECK(dry.exit_code == 0);
  CHECK_CONTAINS(dry.out, "would remove 2 entries");
  CHECK(example.store().list()->size() == 3);

  const ChildResult result = kernwright_program(prune({"--unused-for", "30d"}), store);
  CHECK_MESSAGE(result.exit_code == 0, result.err);
  CHECK_CONTAINS(result.out, "\nremoved:\n  " + old.key.hex());
  CHECK_CONTAINS(result.out, "unused for 41 d");
  CHECK_CONTAINS(result.out, "demo/scale heads=8 dtype=bf16 mma:m64n32s2w8 sm_90a\n");
  CHECK_CONTAINS(result.out, "\nstay, since they are in use:\n  " + in_use.key.hex());
  CHECK_CONTAINS(result.out, "removed 1 entry");
  CHECK_CONTAINS(result.out, "1 stay because they are in use; 2 entries, ");
  ::close(reader);
  const Json json = json_of(kernwright_program(prune({"--unused-for", "30d", "--json"}), store));
  CHECK(json["removed"] == 1);
  CHECK(json["in_use"] == 0);
  CHECK(json["dry_run"] == false);
  REQUIRE(json["entries"].size() == 1);
  CHECK(json["entries"][0]["key"] == in_use.key.hex());
  CHECK(std::abs(json["entries"][0]["unused_seconds"].get<std::int64_t>() - 50 * kDay) < 100);
  CHECK(json["left"]["entries"] == 1);
  CHECK(example.store().list()->at(0).key == read_lately.key.hex());
}

TEST_CASE("cache prune: the least recently used leave until the limit holds") {
  const TemporaryFolder folder;
  ExampleStore example(folder.path() / "store");
  for (int i = 1; i <= 4; ++i) example.add(example_artifact_with(16 * i, 30'000), i * kDay);
  const std::uint64_t each = example.store().list()->at(0).allocated.count;
  const Json json = json_of(kernwright_program(prune({"--limit", std::to_string(each * 2), "--json"}), in_store(example.path())));
  CHECK(json["removed"] == 2);
  CHECK(json["bytes"] == each * 2);
  CHECK(json["left"]["bytes"] == each * 2);
  CHECK(json["entries"][0]["key"] == example_artifact_with(64, 30'000).key.hex());
  CHECK(json["entries"][1]["key"] == example_artifact_with(48, 30'000).key.hex());
}

TEST_CASE("cache prune: a target's entries and fits leave") {
  const TemporaryFolder folder;
  ExampleStore example(folder.path() / "store");
  Artifact other = example_artifact();
  other.request.target = *Target::parse("sm_80");
  other.key = entry_key(other.request, other.compiler);
  example.add(example_artifact());
  example.add(other);
  example.add_fit();
  Fit fit = example_fit();
  fit.target = "sm_80";
  const fs::path kept = example.add_fit(fit, 'b');
  const Json json = json_of(kernwright_program(prune({"--target", "sm_90a", "--json"}), in_store(example.path())));
  CHECK(json["removed"] == 1);
  CHECK(json["fits"] == Json{example_fit_key().hex()});
  CHECK(json["compilers"].empty());
  CHECK(json["entries"][0]["reason"] == "for sm_90a");
  CHECK(example.store().list()->at(0).key == other.key.hex());
  CHECK(example.store().list_fits()->size() == 1);
  CHECK(fs::exists(kept));
}

TEST_CASE("cache prune: entries of other compilers than those that are here leave, with their record, a kind without a compiler stays") {
  const TemporaryFolder folder;
  ExampleStore example(folder.path() / "store");
  RuntimeOptions asked;
  asked.host.mode = HostMode::fibers;  // the program's, which is started without the tests' mode
  const auto options = resolve_options(asked);
  const auto present = make_host_backend(*options, Logger())->compiler().identity();
  REQUIRE(present);
  Artifact own = example_artifact(), foreign = example_artifact();
  own.request.target = foreign.request.target = Target::host();
  own.compiler = *present;
  foreign.compiler = {"host", "another compiler 1.0", {}};
  for (Artifact* each : {&own, &foreign}) {
    each->key = entry_key(each->request, each->compiler);
    example.add(*each);
  }
  const Artifact nvrtc = example_artifact();
  example.add(nvrtc);
  write_file(example.add(example_artifact_with(16, 100)), "bad");
  ChildOptions store = in_store(example.path());
  store.environment["KERNWRIGHT_NVRTC"] = "/nonexistent/libnvrtc.so";
  const Json json = json_of(kernwright_program(prune({"--other-compilers", "--json"}), store));
  CHECK(json["removed"] == 1);
  CHECK(json["entries"][0]["key"] == foreign.key.hex());
  CHECK_CONTAINS(json["entries"][0]["reason"].get<std::string>(), "another compiler 1.0");
  CHECK(json["compilers"].size() == 1);
  REQUIRE(json["notes"].size() == 2);
  CHECK_CONTAINS(json["notes"].dump(), "of the kind nvrtc alone");
  CHECK_CONTAINS(json["notes"].dump(), "cache verify --remove-bad");
  CHECK(example.store().compilers()->size() == 2);
  CHECK(example.store().keys(own.key.hex())->size() == 1);
  CHECK(example.store().keys(nvrtc.key.hex())->size() == 1);

  // With an NVRTC here, the example's made-up one is another compiler.
  store.environment["KERNWRIGHT_NVRTC"] = "";
  const Json with_nvrtc = json_of(kernwright_program(prune({"--other-compilers", "--json", "--dry-run"}), store));
  if (contains(with_nvrtc["notes"].dump(), "of the kind nvrtc alone")) {
    MESSAGE("skipped: this machine has no NVRTC");
    return;
  }
  CHECK(with_nvrtc["removed"] == 1);
  CHECK(with_nvrtc["entries"][0]["key"] == nvrtc.key.hex());
  CHECK(example.store().keys(nvrtc.key.hex())->size() == 1);
}

TEST_CASE("cache prune: leftovers leave with every rule, and alone") {
  const TemporaryFolder folder;
  ExampleStore example(folder.path() / "store");
  example.add(example_artifact());
  const fs::path leftover = example.path() / "compilers" / ".x.tmp";
  const auto leave_one = [&] {
    write_file(leftover, "half");
    set_file_time(leftover, Clock::system()->unix_seconds() - 2 * kDay - 1800);
  };
  leave_one();
  const ChildOptions store = in_store(example.path());
  const ChildResult dry = kernwright_program(prune({"--leftovers", "--dry-run"}), store);
  CHECK_CONTAINS(dry.out, "would remove leftover compilers/.x.tmp, 2 d old\n");
  CHECK(fs::exists(leftover));
  const Json json = json_of(kernwright_program(prune({"--leftovers", "--json"}), store));
  CHECK(json["leftovers"][0]["path"] == "compilers/.x.tmp");
  CHECK(json["removed"] == 0);
  CHECK_FALSE(fs::exists(leftover));
  leave_one();
  CHECK(kernwright_program(prune({"--limit", "1G"}), store).exit_code == 0);
  CHECK_FALSE(fs::exists(leftover));
  CHECK(example.store().list()->size() == 1);
}

TEST_CASE("cache prune and clear: only the writable store is touched, and the others are named") {
  const TemporaryFolder folder;
  ExampleStore read_only(folder.path() / "read_only"), writable(folder.path() / "writable");
  read_only.add(example_artifact(), 100 * kDay);
  writable.add(example_artifact(), 100 * kDay, 10);
  writable.add(example_artifact_with(16, 100), 100 * kDay);
  writable.add_fit();
  write_file(writable.path() / "mine.txt", "kept");
  ChildOptions options = in_store(writable.path());
  options.environment["KERNWRIGHT_CACHE_STORES"] = read_only.path().string();
  const ChildResult pruned = kernwright_program(prune({"--unused-for", "1d"}), options);
  CHECK_CONTAINS(pruned.out, "store " + writable.path().string() + " (writable)\n");
  CHECK_CONTAINS(pruned.out, "store " + read_only.path().string() + " (read-only): left alone\n");
  CHECK(writable.store().list()->size() == 1);
  const ChildResult cleared = kernwright_program({"cache", "clear"}, options);
  CHECK(cleared.exit_code == 0);
  CHECK_CONTAINS(cleared.out, "removed 1 entry and 1 fit, ");
  CHECK_CONTAINS(cleared.out, "store " + read_only.path().string() + " (read-only): left alone\n");
  CHECK(writable.store().list()->empty());
  CHECK(writable.store().list_fits()->empty());
  CHECK(writable.store().compilers()->empty());
  CHECK_FALSE(fs::exists(stamp_path(writable.path(), example_artifact().key.hex())));
  CHECK(read_file(writable.path() / "mine.txt") == "kept");
  CHECK(read_only.store().list()->size() == 1);
  const Json json = json_of(kernwright_program({"cache", "clear", "--json", "--store", read_only.path().string()}, options));
  CHECK(json["entries"] == 1);
  CHECK(json["left_alone"].empty());
}
