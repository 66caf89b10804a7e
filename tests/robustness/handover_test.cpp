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

TEST_CASE("handover: those who waited for a build that left no entry build side by side") {
  const TemporaryFolder folder;
  EventfulClock idle([] {});
  BuildLock first = lock_with(folder.path(), idle);
  REQUIRE(first.held);
  EventfulClock until_first_gives_up([&] {
    first.held->say(kNoEntry);
    first.held.reset();
  });
  const BuildLock second = lock_with(folder.path(), until_first_gives_up);
  CHECK_FALSE(second.held);
  CHECK(second.waited);
  CHECK(second.problem.empty());

  // Who comes later tries anew: the disk may have room again.
  BuildLock third = lock_with(folder.path(), idle);
  REQUIRE(third.held);
  CHECK_FALSE(third.waited);
  // And who waits for one that is killed takes over.
  EventfulClock until_third_dies([&] { third.held.reset(); });
  const BuildLock fourth = lock_with(folder.path(), until_third_dies);
  CHECK(fourth.held);
  CHECK(fourth.waited);
}
