#include "prepare/compile_budget.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <condition_variable>
#include <thread>
#include <vector>

using namespace kernwright;

TEST_CASE("compile budget: so many at once, all of them, and no more") {
  constexpr int kAtOnce = 3, kThreads = 12;
  CompileBudget budget(kAtOnce);
  CHECK(budget.at_once() == kAtOnce);
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0, most = 0, passed = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        const CompileBudget::Turn turn(budget);
        std::unique_lock lock(mutex);
        most = std::max(most, ++inside);
        changed.notify_all();
        // Nobody leaves before the budget is full: with fewer turns than asked for this would never end.
        changed.wait(lock, [&] { return most == kAtOnce; });
        --inside;
        ++passed;
      });
    }
  }
  CHECK(most == kAtOnce);
  CHECK(passed == kThreads);
}

TEST_CASE("compile budget: 0 is what the machine bears") {
  CompileBudget budget(0);
  CHECK(budget.at_once() == compile_jobs().count);
}
