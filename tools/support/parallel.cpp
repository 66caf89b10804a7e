#include "support/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace kernwright::support {

void parallel_ranges(std::int64_t count, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& work) {
  if (count <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr first_error;
  const auto loop = [&] {
    try {
      for (;;) {
        const std::int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
        if (begin >= count) return;
        work(begin, std::min(begin + grain, count));
      }
    } catch (...) {
      next.store(count, std::memory_order_relaxed);
      const std::scoped_lock lock(mutex);
      if (!first_error) first_error = std::current_exception();
    }
  };
  const std::int64_t ranges = (count - 1) / grain + 1;
  const std::int64_t cores = std::max<std::int64_t>(std::thread::hardware_concurrency(), 1);
  {
    std::vector<std::jthread> helpers;
    try {
      for (std::int64_t i = 1; i < std::min(cores, ranges); ++i) helpers.emplace_back(loop);
    } catch (const std::system_error&) {
      // No more threads to be had: the ones that run, and this one, do the work.
    }
    loop();
  }
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace kernwright::support
