#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <set>

#include "fixtures/example_artifact.hpp"
#include "fixtures/example_fit.hpp"
#include "fixtures/file_times.hpp"
#include "fixtures/moved_clock.hpp"
#include "fixtures/temporary_folder.hpp"
#include "store/compiler_record.hpp"
#include "store/store.hpp"
#include "store/store_paths.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kDay = 86'400;

std::set<std::string> all_names(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) names.insert(entry.path().lexically_relative(folder).string());
  return names;
}

/// Entries of one size, the first one the least recently used.
struct AgedStore {
  TemporaryFolder folder;
  fs::path path = folder.path() / "store";
  std::shared_ptr<MovedClock> clock = std::make_shared<MovedClock>();
  Store store{path, FileSystem::posix(), clock};
  std::vector<Artifact> artifacts;
  Bytes each;

  explicit AgedStore(int count) {
    for (int i = 0; i < count; ++i) {
      artifacts.push_back(example_artifact_with(16 * (i + 1), 20'000));
      REQUIRE(store.publish(artifacts.back()));
      set_file_time(entry(i), clock->unix_seconds() - kDay * (count - i));
    }
    struct stat status {};
    REQUIRE(::stat(entry(0).c_str(), &status) == 0);
    each = {static_cast<std::uint64_t>(status.st_blocks) * 512};
  }
  [[nodiscard]] std::string key(int i) const { return artifacts.at(static_cast<std::size_t>(i)).key.hex(); }
  [[nodiscard]] fs::path entry(int i) const { return entry_path(path, key(i)); }
  [[nodiscard]] std::vector<int> present() const {
    std::vector<int> all;
    for (int i = 0; i < static_cast<int>(artifacts.size()); ++i) {
      if (fs::exists(entry(i))) all.push_back(i);
    }
    return all;
  }
};

}  // namespace

TEST_CASE("eviction rules: entries leave that any rule names, and the limit takes no more than it must") {
  AgedStore aged(5);
  // The newest is named, the oldest unused for long; of the three left the limit takes one.
  const auto eviction = aged.store.evict({.limit = Bytes{aged.each.count * 2}, .unused_seconds = 5 * kDay, .keys = {aged.key(4)}});
  REQUIRE(eviction);
  CHECK(aged.present() == std::vector<int>{2, 3});
  CHECK(eviction->entries == 3);
  CHECK(eviction->bytes.count == aged.each.count * 3);
  CHECK(eviction->left_count == 2);
  CHECK(eviction->left.count == aged.each.count * 2);
  REQUIRE(eviction->items.size() == 3);
  CHECK(eviction->items[0].key == aged.key(4));
  CHECK(eviction->items[0].reason == Store::EvictionReason::named);
  CHECK(eviction->items[1].key == aged.key(0));
  CHECK(eviction->items[1].reason == Store::EvictionReason::unused);
  CHECK(eviction->items[1].unused_seconds == 5 * kDay);
  CHECK(eviction->items[2].key == aged.key(1));
  CHECK(eviction->items[2].reason == Store::EvictionReason::limit);
  CHECK(eviction->items[2].allocated == aged.each);
}

TEST_CASE("eviction rules: a dry run says the same and changes nothing") {
  AgedStore aged(4);
  const fs::path half = aged.entry(0).parent_path() / ".x.1.0123456789abcdef.tmp";
  write_file(half, "half");
  set_file_time(half, aged.clock->unix_seconds() - 7200);
  const auto before = all_names(aged.path);
  Store::EvictionRules rules{.limit = aged.each, .unused_seconds = 4 * kDay, .keys = {aged.key(2)}, .dry_run = true};
  const auto dry = aged.store.evict(rules);
  REQUIRE(dry);
  CHECK(all_names(aged.path) == before);
  rules.dry_run = false;
  const auto done = aged.store.evict(rules);
  REQUIRE(done);
  CHECK(aged.present() == std::vector<int>{3});
  CHECK(dry->entries == done->entries);
  CHECK(dry->bytes == done->bytes);
  CHECK(dry->left == done->left);
  REQUIRE(dry->items.size() == done->items.size());
  for (std::size_t i = 0; i < dry->items.size(); ++i) {
    CHECK(dry->items[i].key == done->items[i].key);
    CHECK(dry->items[i].reason == done->items[i].reason);
  }
}

TEST_CASE("eviction rules: what is read stays and is named, and so does what is spared, a link is not followed") {
  AgedStore aged(4);
  const int reader = ::open(aged.entry(0).c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(::flock(reader, LOCK_SH) == 0);
  fs::rename(aged.entry(1), aged.folder.path() / "aside");
  fs::create_symlink(aged.folder.path() / "aside", aged.entry(1));
  const auto eviction = aged.store.evict({.limit = Bytes{0}, .keys = {aged.key(0), aged.key(1)}, .spared = aged.key(2)});
  ::close(reader);
  REQUIRE_MESSAGE(eviction, (eviction ? "" : eviction.error().text()));
  CHECK(eviction->entries == 1);
  CHECK(eviction->in_use == 1);
  REQUIRE(eviction->items.size() == 2);
  CHECK(eviction->items[0].key == aged.key(0));
  CHECK(eviction->items[0].in_use);
  CHECK_FALSE(eviction->items[1].in_use);
  CHECK(aged.present() == std::vector<int>{0, 1, 2});
  CHECK(fs::exists(aged.folder.path() / "aside"));
}

TEST_CASE("removal: only what killed processes left is a leftover") {
  AgedStore aged(1);
  REQUIRE(aged.store.read(aged.artifacts[0].key, aged.artifacts[0].request, aged.artifacts[0].compiler).outcome == Store::Outcome::hit);
  const auto before = all_names(aged.path);
  const std::string gone = "00112233445566778899aabbccddeeff";
  const std::vector<fs::path> leftovers{aged.path / ".a.tmp", aged.path / "fits" / ".b.tmp", aged.path / "compilers" / ".c.tmp",
                                        aged.entry(0).parent_path() / ".d.tmp", stamp_path(aged.path, gone).parent_path() / ".e.tmp"};
  for (const fs::path& each : leftovers) {
    write_file(each, "half");
    set_file_time(each, aged.clock->unix_seconds() - 3601);
  }
  write_file(stamp_path(aged.path, gone), "");
  const fs::path young = aged.path / "fits" / ".young.tmp";
  write_file(young, "half");
  const fs::path strange = aged.path / "fits" / "half.tmp";
  write_file(strange, "not ours");
  set_file_time(strange, 1);

  const auto found = aged.store.remove_leftovers(true);
  REQUIRE(found);
  CHECK(found->size() == 6);
  for (const fs::path& each : leftovers) {
    const auto item = std::ranges::find(*found, each.lexically_relative(aged.path), &Leftover::path);
    REQUIRE(item != found->end());
    CHECK(item->age_seconds == 3601);
    CHECK(item->size.count == 4);
    CHECK(fs::exists(each));
  }
  REQUIRE(aged.store.remove_leftovers(false));
  auto after = all_names(aged.path);
  for (const fs::path& each : {young, strange, stamp_path(aged.path, gone).parent_path(), aged.path / "fits"}) {
    after.erase(each.lexically_relative(aged.path).string());
  }
  CHECK(after == before);
  CHECK(fs::exists(young));
  CHECK(fs::exists(strange));
}

TEST_CASE("removal: a bad entry leaves whatever stands in its place, a good one never") {
  AgedStore aged(1);
  const fs::path entry = aged.entry(0);
  const std::string good = read_file(entry);
  const auto outcome = [&] {
    const auto removed = aged.store.remove_bad_entry(aged.key(0));
    REQUIRE_MESSAGE(removed, (removed ? "" : removed.error().text()));
    return *removed;
  };
  CHECK_FALSE(outcome());
  CHECK(read_file(entry) == good);
  const std::vector<std::function<void()>> damages{[&] { write_file(entry, "bad"); }, [&] { REQUIRE(::mkfifo(entry.c_str(), 0600) == 0); },
                                                   [&] { fs::create_symlink("/nonexistent", entry); }, [&] { fs::create_directory(entry); },
                                                   [] {}};
  for (const auto& damage : damages) {
    fs::remove(entry);
    damage();
    CHECK(outcome());
    CHECK_FALSE(fs::exists(fs::symlink_status(entry)));
  }
  write_file(entry / "x", "precious");
  const auto kept = aged.store.remove_bad_entry(aged.key(0));
  REQUIRE_FALSE(kept);
  CHECK(kept.error().code == ErrorCode::io);
  CHECK(read_file(entry / "x") == "precious");
}

TEST_CASE("removal: records leave by name, a read-only store refuses it all") {
  AgedStore aged(1);
  REQUIRE(aged.store.publish_fit(example_fit_key(), example_fit()));
  Store read_only(aged.path, FileSystem::posix(), aged.clock, StoreSettings{.access = StoreAccess::read_only});
  const std::string record = compiler_record_name(aged.artifacts[0].compiler);
  const auto before = all_names(aged.path);
  CHECK_FALSE(read_only.remove_fit(example_fit_key().hex()));
  CHECK_FALSE(read_only.remove_compiler(record));
  CHECK_FALSE(read_only.remove_bad_entry(aged.key(0)));
  CHECK_FALSE(read_only.remove_leftovers(false));
  CHECK_FALSE(read_only.evict({.limit = Bytes{0}}));
  CHECK_FALSE(read_only.clear());
  CHECK(all_names(aged.path) == before);
  for (int twice = 0; twice < 2; ++twice) {
    CHECK(aged.store.remove_fit(example_fit_key().hex()));
    CHECK(aged.store.remove_compiler(record));
  }
  CHECK(aged.store.list_fits()->empty());
  CHECK(aged.store.compilers()->empty());
  CHECK(aged.present() == std::vector<int>{0});
}

TEST_CASE("store: the list tells each binary's size without keeping it, and keys are found by their first digits") {
  const TemporaryFolder folder;
  Store store(folder.path() / "store", FileSystem::posix(), Clock::system());
  const Artifact small = example_artifact_with(16, 100), large = example_artifact_with(32, 5000);
  REQUIRE(store.publish(small));
  REQUIRE(store.publish(large));
  const auto items = store.list();
  REQUIRE(items);
  for (const Store::Listed& item : *items) {
    CHECK(item.binary.count == (item.key == small.key.hex() ? 100 : 5000));
    CHECK(item.artifact->binary.empty());
    CHECK(item.allocated.count >= item.size.count);
  }
  CHECK(store.show(large.key.hex())->binary.count == 5000);
  CHECK(*store.keys(small.key.hex().substr(0, 8)) == std::vector<std::string>{small.key.hex()});
  CHECK(store.keys("00000000")->empty());
  CHECK(store.keys("abc").error().code == ErrorCode::invalid_argument);
  CHECK(store.keys("ABCD").error().code == ErrorCode::invalid_argument);
}
