#include "prepare/work_pool.hpp"

#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace kernwright {

void run_jobs(int threads, std::size_t count, const std::function<bool()>& stop, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> thrown{false};
  std::mutex mutex;
  std::exception_ptr first;
  const auto serve = [&] {
    try {
      while (!thrown && !stop()) {
        const std::size_t job = next.fetch_add(1);
        if (job >= count) return;
        work(job);
      }
    } catch (...) {
      thrown = true;
      const std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> helpers;
    try {
      for (int i = 1; i < threads && static_cast<std::size_t>(i) < count; ++i) helpers.emplace_back(serve);
    } catch (const std::system_error&) {
      // The threads that there are do the work.
    }
    serve();
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace kernwright
