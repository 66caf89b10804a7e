#include "prepare/work_pool.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace kernwright;

namespace {

bool never() {
  return false;
}

}  // namespace

TEST_CASE("work pool: every job is done once, whatever the number of threads") {
  for (const int threads : {-1, 1, 2, 7, 300}) {
    std::vector<std::atomic<int>> done(100);
    run_jobs(threads, done.size(), never, [&](std::size_t i) { ++done[i]; });
    for (const std::atomic<int>& count : done) REQUIRE(count == 1);
  }
  run_jobs(4, 0, never, [](std::size_t) { FAIL("nothing to do"); });
}

TEST_CASE("work pool: jobs begin in order") {
  std::vector<std::size_t> order;
  run_jobs(1, 5, never, [&](std::size_t i) { order.push_back(i); });
  CHECK(order == std::vector<std::size_t>{0, 1, 2, 3, 4});
}

TEST_CASE("work pool: all threads work at once") {
  std::barrier together(3);  // a pool with fewer threads would never come back
  run_jobs(3, 9, never, [&](std::size_t) { together.arrive_and_wait(); });
}

TEST_CASE("work pool: once stopped nothing is begun") {
  std::atomic<int> done{0};
  run_jobs(
      2, 1000, [&] { return done >= 10; }, [&](std::size_t) { ++done; });
  CHECK(done >= 10);
  CHECK(done <= 11);
}

TEST_CASE("work pool: an exception comes out after those that run, and stops the rest") {
  std::atomic<int> done{0};
  const auto run = [&] {
    run_jobs(2, 1000, never, [&](std::size_t i) {
      if (i == 3) throw std::runtime_error("x");
      // Time for the exception to be seen: unwinding for the first time takes longer than a thousand empty jobs.
      if (i > 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++done;
    });
  };
  CHECK_THROWS_AS(run(), std::runtime_error);
  CHECK(done < 999);
}
