#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>

#include "fixtures/example_artifact.hpp"
#include "fixtures/moved_clock.hpp"
#include "fixtures/temporary_folder.hpp"
#include "store/store.hpp"
#include "store/store_paths.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kDay = 86'400;

Bytes allocated(const fs::path& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return {static_cast<std::uint64_t>(status.st_blocks) * 512};
}

void set_time(const fs::path& path, std::int64_t seconds) {
  const timespec times[2] = {{seconds, 0}, {seconds, 0}};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

bool is_hit(Store& store, const Artifact& artifact) {
  return store.read(artifact.key, artifact.request, artifact.compiler).outcome == Store::Outcome::hit;
}

/// Every path below a folder with its size and its times in nanoseconds.
std::map<std::string, std::string> picture(const fs::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    struct stat status {};
    REQUIRE(::stat(entry.path().c_str(), &status) == 0);
    all[entry.path().native()] = std::to_string(status.st_size) + ' ' + std::to_string(status.st_mtim.tv_sec) + '.' +
                                 std::to_string(status.st_mtim.tv_nsec) + ' ' + std::to_string(status.st_ctim.tv_nsec);
  }
  return all;
}

}  // namespace

TEST_CASE("eviction: the least recently used go first, by the store's stamp and not by when they were written") {
  const TemporaryFolder folder;
  const auto clock = std::make_shared<MovedClock>();
  const std::int64_t now = clock->unix_seconds();
  Store store(folder.path(), FileSystem::posix(), clock);
  const Artifact old = example_artifact_with(16, 20'000), used = example_artifact_with(32, 20'000),
                 recent = example_artifact_with(64, 20'000);
  for (const Artifact* each : {&old, &used, &recent}) REQUIRE(store.publish(*each));
  set_time(entry_path(folder.path(), used.key.hex()), now - 9 * kDay);  // written first, but read yesterday
  set_time(entry_path(folder.path(), old.key.hex()), now - 5 * kDay);
  set_time(entry_path(folder.path(), recent.key.hex()), now - 1);
  REQUIRE(is_hit(store, used));
  REQUIRE(fs::exists(stamp_path(folder.path(), used.key.hex())));
  set_time(stamp_path(folder.path(), used.key.hex()), now - kDay);

  const Bytes each = allocated(entry_path(folder.path(), old.key.hex()));
  auto eviction = store.evict_to(Bytes{each.count * 2});
  REQUIRE(eviction);
  CHECK(eviction->entries == 1);
  CHECK(eviction->bytes == each);
  CHECK(eviction->left == Bytes{each.count * 2});
  CHECK_FALSE(fs::exists(entry_path(folder.path(), old.key.hex())));

  eviction = store.evict_to(Bytes{each.count});
  REQUIRE(eviction);
  CHECK(eviction->entries == 1);
  CHECK_FALSE(fs::exists(entry_path(folder.path(), used.key.hex())));
  CHECK_FALSE(fs::exists(stamp_path(folder.path(), used.key.hex())));
  CHECK(is_hit(store, recent));
}

TEST_CASE("eviction: what was not used for long goes, whatever it takes") {
  const TemporaryFolder folder;
  const auto clock = std::make_shared<MovedClock>();
  Store store(folder.path(), FileSystem::posix(), clock);
  const Artifact old = example_artifact_with(16, 100), recent = example_artifact_with(64, 100);
  REQUIRE(store.publish(old));
  REQUIRE(store.publish(recent));
  set_time(entry_path(folder.path(), old.key.hex()), clock->unix_seconds() - 31 * kDay);
  const auto eviction = store.evict_unused(30 * kDay);
  REQUIRE(eviction);
  CHECK(eviction->entries == 1);
  CHECK(is_hit(store, recent));
  CHECK_FALSE(is_hit(store, old));
}

TEST_CASE("eviction: an entry that another process reads just now stays") {
  const TemporaryFolder folder;
  Store store(folder.path(), FileSystem::posix(), Clock::system());
  const Artifact artifact = example_artifact();
  REQUIRE(store.publish(artifact));
  const auto path = entry_path(folder.path(), artifact.key.hex());
  const int reader = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(reader >= 0);
  REQUIRE(::flock(reader, LOCK_SH) == 0);
  auto eviction = store.evict_to(Bytes{});
  REQUIRE(eviction);
  CHECK(eviction->entries == 0);
  CHECK(eviction->in_use == 1);
  CHECK(fs::exists(path));
  ::close(reader);
  eviction = store.evict_to(Bytes{});
  REQUIRE(eviction);
  CHECK(eviction->entries == 1);
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("eviction: publishing keeps a store within its limit and the newest entry in it") {
  const TemporaryFolder folder;
  const Bytes limit = kibibytes(300);
  Store store(folder.path(), FileSystem::posix(), Clock::system(), {.limit = limit});
  constexpr int kEntries = 40;
  for (int i = 1; i <= kEntries; ++i) {
    const Artifact artifact = example_artifact_with(i, 30'000);
    REQUIRE(store.publish(artifact));
    CHECK(is_hit(store, artifact));
    Bytes all;
    for (const auto& entry : fs::recursive_directory_iterator(entries_folder(folder.path()))) {
      if (entry.is_regular_file()) all.count += allocated(entry.path()).count;
    }
    CHECK(all <= limit);
  }
  // Without a limit nothing leaves.
  Store unlimited(folder.path() / "other", FileSystem::posix(), Clock::system());
  for (int i = 1; i <= kEntries; ++i) REQUIRE(unlimited.publish(example_artifact_with(i, 30'000)));
  CHECK(unlimited.list()->size() == kEntries);
}

TEST_CASE("eviction: temporary files that a killed process left go once they are an hour old") {
  const TemporaryFolder folder;
  Store store(folder.path(), FileSystem::posix(), Clock::system());
  const Artifact artifact = example_artifact();
  REQUIRE(store.publish(artifact));
  const auto shard = entry_path(folder.path(), artifact.key.hex()).parent_path();
  write_file(shard / ".a.1.0123456789abcdef.tmp", "half");
  write_file(shard / ".b.1.0123456789abcdef.tmp", "half");
  set_time(shard / ".a.1.0123456789abcdef.tmp", Clock::system()->unix_seconds() - 3'700);
  REQUIRE(store.evict_to(mebibytes(10)));
  CHECK_FALSE(fs::exists(shard / ".a.1.0123456789abcdef.tmp"));
  CHECK(fs::exists(shard / ".b.1.0123456789abcdef.tmp"));
  CHECK(is_hit(store, artifact));
}

TEST_CASE("store: a stamp is as fine as an hour") {
  const TemporaryFolder folder;
  const auto clock = std::make_shared<MovedClock>();
  Store store(folder.path(), FileSystem::posix(), clock);
  const Artifact artifact = example_artifact();
  REQUIRE(store.publish(artifact));
  REQUIRE(is_hit(store, artifact));
  const auto stamp = stamp_path(folder.path(), artifact.key.hex());
  const std::int64_t before = clock->unix_seconds() - 3'000;
  set_time(stamp, before);
  REQUIRE(is_hit(store, artifact));
  struct stat status {};
  REQUIRE(::stat(stamp.c_str(), &status) == 0);
  CHECK(status.st_mtime == before);
  set_time(stamp, before - 1'000);
  REQUIRE(is_hit(store, artifact));
  REQUIRE(::stat(stamp.c_str(), &status) == 0);
  CHECK(status.st_mtime > before);
  CHECK(store.list()->front().used_seconds == status.st_mtime);
}

TEST_CASE("store: one that is read-only is not changed by anything, not even by a stamp") {
  const TemporaryFolder folder;
  const Artifact artifact = example_artifact();
  REQUIRE(Store(folder.path(), FileSystem::posix(), Clock::system()).publish(artifact));
  const auto before = picture(folder.path());
  Store store(folder.path(), FileSystem::posix(), Clock::system(), {.access = StoreAccess::read_only});
  CHECK(is_hit(store, artifact));
  CHECK_FALSE(store.publish(example_artifact_with(16, 100)));
  CHECK_FALSE(store.publish_fit(FitKey{artifact.key}, Fit{}));
  CHECK_FALSE(store.try_lock_build(artifact.key, "me"));
  CHECK_FALSE(store.evict_to(Bytes{}));
  CHECK_FALSE(store.evict_unused(0));
  CHECK_FALSE(store.clear());
  CHECK(picture(folder.path()) == before);
}
