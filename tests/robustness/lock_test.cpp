// What the build lock and the readers' lock do, in threads, in processes, and where one is forked while a lock is held.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "fixtures/temporary_folder.hpp"
#include "robustness/misbehaving_calls.hpp"
#include "robustness/process.hpp"
#include "robustness/store_contents.hpp"
#include "store/build_lock.hpp"
#include "store/store.hpp"
#include "store/store_paths.hpp"

using namespace kernwright;
using namespace kernwright::robustness;
using tests::TemporaryFolder;

namespace {

Store store_in(const TemporaryFolder& folder, std::shared_ptr<FileSystem> files = FileSystem::posix()) {
  return {folder.path() / "store", std::move(files), Clock::system()};
}

std::unique_ptr<HeldLock> take(Store& store, const EntryKey& key) {
  auto attempt = store.try_lock_build(key, "somebody");
  REQUIRE_MESSAGE(attempt, (attempt ? "" : attempt.error().text()));
  return std::move(attempt->lock);
}

EntryKey key_with(unsigned char third, unsigned char last) {
  EntryKey key;
  key.bytes[2] = static_cast<std::byte>(third);
  key.bytes[15] = static_cast<std::byte>(last);
  return key;
}

}  // namespace

TEST_CASE("locks: one holder at a time among the threads of a process") {
  const TemporaryFolder folder;
  std::atomic<int> inside = 0;
  std::atomic<int> overlaps = 0;
  std::atomic<int> taken = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      Store store = store_in(folder);
      const Logger silent;
      for (int turn = 0; turn < 25; ++turn) {
        const BuildLock lock = lock_build(store, key_with(1, 1), "building", 60, *Clock::system(), silent);
        if (!lock.held) continue;
        if (inside.fetch_add(1) != 0) ++overlaps;
        std::this_thread::yield();
        --inside;
        ++taken;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(overlaps == 0);
  CHECK(taken == 100);
}

TEST_CASE("locks: the holder is named, and keys apart do not wait for each other") {
  const TemporaryFolder folder;
  Store first = store_in(folder);
  Store second = store_in(folder);
  auto held = first.try_lock_build(key_with(1, 1), "process 7 on a machine");
  REQUIRE(held);
  REQUIRE(held->lock);
  const auto refused = second.try_lock_build(key_with(1, 1), "another");
  REQUIRE(refused);
  CHECK_FALSE(refused->lock);
  CHECK(refused->holder == "process 7 on a machine");
  CHECK(take(second, key_with(2, 1)) != nullptr);
  held->lock.reset();
  CHECK(take(second, key_with(1, 1)) != nullptr);
}

TEST_CASE("locks: two keys in one slot wait for each other, and neither loses its build") {
  const TemporaryFolder folder;
  Store first = store_in(folder);
  Store second = store_in(folder);
  const EntryKey one = key_with(9, 1);
  const EntryKey other = key_with(9, 2);  // the slot is made of the first bytes
  auto held = take(first, one);
  REQUIRE(held);
  CHECK_FALSE(take(second, other));
  class ReleasingClock final : public Clock {
   public:
    explicit ReleasingClock(std::unique_ptr<HeldLock>& lock) : held_(lock) {}
    std::int64_t unix_seconds() const override { return 0; }
    double monotonic_seconds() const override { return 0; }
    void sleep(double) override { held_.reset(); }

   private:
    std::unique_ptr<HeldLock>& held_;
  } clock(held);
  const BuildLock lock = lock_build(second, other, "building", 60, clock, Logger());
  CHECK(lock.held != nullptr);
  CHECK(lock.waited);
  CHECK(lock.problem.empty());
}

TEST_CASE("locks: released although a forked child still has the descriptor") {
  const TemporaryFolder folder;
  Store store = store_in(folder);
  auto held = take(store, key_with(1, 1));
  REQUIRE(held);
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  REQUIRE(child > 0);
  held.reset();
  Store other = store_in(folder);
  CHECK(take(other, key_with(1, 1)) != nullptr);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("locks: an entry that another process reads just now is not evicted, and is read whole") {
  const TemporaryFolder folder;
  Store store = store_in(folder);
  for (const int number : {3, 4}) REQUIRE(store.publish(artifact_number(number)));
  Barrier barrier;
  Process reader(KERNWRIGHT_STORE_WORKER,
                 {{store.folder().string(), "--task", "read", "--number", "3"}, {}, barrier.input(), folder.path() / "reader"});
  REQUIRE(wait_until([&] { return reader.output() == "reading\n"; }));
  const auto evicted = store.evict_to(Bytes{0});
  REQUIRE(evicted);
  CHECK(evicted->in_use == 1);
  CHECK(evicted->entries == 1);
  CHECK(std::filesystem::exists(entry_path(store.folder(), artifact_number(3).key.hex())));
  CHECK(evicted->left.count > 0);
  barrier.open();
  CHECK(reader.wait() == 0);
  CHECK(reader.output().find("hit") != std::string::npos);
  CHECK(store.evict_to(Bytes{0})->entries == 1);
}

TEST_CASE("locks: where there are none, an entry that is evicted under its reader is read whole all the same") {
  const TemporaryFolder folder;
  Store store = store_in(folder, make_posix_file_system(std::make_shared<NoLocks>()));
  REQUIRE(store.publish(artifact_number(3)));
  Barrier barrier;
  Process reader(KERNWRIGHT_STORE_WORKER,
                 {{store.folder().string(), "--task", "read", "--number", "3"}, {}, barrier.input(), folder.path() / "reader"});
  REQUIRE(wait_until([&] { return reader.output() == "reading\n"; }));
  CHECK(store.evict_to(Bytes{0})->entries == 1);
  barrier.open();
  CHECK(reader.wait() == 0);
  CHECK(reader.output().find("hit") != std::string::npos);
}

TEST_CASE("locks: clearing and replacing under a reader do not tear what it reads") {
  const TemporaryFolder folder;
  Store store = store_in(folder);
  for (const bool replace : {false, true}) {
    CAPTURE(replace);
    REQUIRE(store.publish(artifact_number(3)));
    Barrier barrier;
    const auto output = folder.path() / (replace ? "reader of a replaced one" : "reader of a cleared one");
    Process reader(KERNWRIGHT_STORE_WORKER, {{store.folder().string(), "--task", "read", "--number", "3"}, {}, barrier.input(), output});
    REQUIRE(wait_until([&] { return reader.output() == "reading\n"; }));
    if (replace) {
      REQUIRE(store.publish(artifact_number(3)));
    } else {
      REQUIRE(store.clear());
    }
    barrier.open();
    CHECK(reader.wait() == 0);
    CHECK(reader.output().find("hit") != std::string::npos);
  }
}
