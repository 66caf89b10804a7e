// What one process leaves to the next when they meet at the build lock: its entry, or the news that there is none.
#include <doctest/doctest.h>

#include <functional>
#include <utility>

#include "fixtures/example_artifact.hpp"
#include "fixtures/temporary_folder.hpp"
#include "robustness/replay_backend.hpp"
#include "robustness/staged_launch.hpp"
#include "store/build_lock.hpp"

using namespace kernwright;
using namespace kernwright::robustness;
using tests::TemporaryFolder;

namespace {

/// Runs something once, just before the first lock is asked for.
class BeforeTheLock final : public PosixCalls {
 public:
  explicit BeforeTheLock(std::function<void()> action) : action_(std::move(action)) {}
  int lock_range(int descriptor, short type, off_t start, off_t size) override {
    if (auto action = std::exchange(action_, nullptr)) action();
    return PosixCalls::lock_range(descriptor, type, start, size);
  }

 private:
  std::function<void()> action_;
};

/// Time passes only while somebody waits, and then something happens.
class EventfulClock final : public Clock {
 public:
  explicit EventfulClock(std::function<void()> action) : action_(std::move(action)) {}
  std::int64_t unix_seconds() const override { return 0; }
  double monotonic_seconds() const override { return passed_; }
  void sleep(double seconds) override {
    passed_ += seconds;
    if (auto action = std::exchange(action_, nullptr)) action();
  }

 private:
  std::function<void()> action_;
  double passed_ = 0;
};

BuildLock lock_with(const std::filesystem::path& folder, Clock& clock) {
  Store store(folder, FileSystem::posix(), Clock::system());
  return lock_build(store, tests::example_artifact().key, "building", 10, clock, Logger());
}

}  // namespace

TEST_CASE("handover: an entry that came between the look and the lock is not built again") {
  const TemporaryFolder folder;
  const auto backend = make_replay_backend();
  const auto store = folder.path() / "store";
  const auto late = launch_staged(backend, store, std::make_shared<BeforeTheLock>([&] {
                                    const auto first = launch_staged(backend, store, std::make_shared<PosixCalls>());
                                    CHECK(first.kernel);
                                    CHECK(first.counters.compiles == 2);
                                  }));
  REQUIRE_MESSAGE(late.kernel, (late.kernel ? "" : late.kernel.error().text()));
  CHECK(late.counters.misses == 1);  // the plans, which it had looked for already; the kernel it found
  CHECK(late.counters.compiles == 0);
  CHECK(late.counters.lock_waits == 0);
  CHECK(late.kernel->report().cache == CacheSource::store);
  CHECK(late.warnings.empty());
}

TEST_CASE("handover: after a build that left no entry nobody waits, until there is one") {
  const TemporaryFolder folder;
  EventfulClock idle([] {});
  BuildLock first = lock_with(folder.path(), idle);
  REQUIRE(first.held);
  EventfulClock until_first_gives_up([&] {
    first.done(false);
    first.held.reset();
  });
  const BuildLock second = lock_with(folder.path(), until_first_gives_up);
  CHECK_FALSE(second.held);
  CHECK(second.waited);
  CHECK(second.problem.empty());

  // Who comes later tries anew, since the disk may have room again; but the others do not wait for that.
  BuildLock third = lock_with(folder.path(), idle);
  REQUIRE(third.held);
  CHECK_FALSE(third.waited);
  const BuildLock beside = lock_with(folder.path(), idle);
  CHECK_FALSE(beside.held);
  CHECK(beside.problem.empty());
  CHECK(idle.monotonic_seconds() == 0);
  third.done(true);
  third.held.reset();

  BuildLock fourth = lock_with(folder.path(), idle);
  REQUIRE(fourth.held);
  CHECK_FALSE(fourth.after_failure);
  // One that is killed leaves no word at all: the next one takes over.
  EventfulClock until_fourth_dies([&] { fourth.held.reset(); });
  const BuildLock fifth = lock_with(folder.path(), until_fourth_dies);
  CHECK(fifth.held);
  CHECK(fifth.waited);
}
