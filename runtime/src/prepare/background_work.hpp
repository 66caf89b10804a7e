// Threads of the runtime's own for prepare_async: started when first needed, at most so many at once.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace kernwright {

/// Thread-safe. The destructor finishes what runs and drops what has not begun; it may run on one of the threads itself, where a task held
/// the last handle of the work's owner.
class BackgroundWork {
 public:
  /// `most_threads` is asked when the first task comes.
  explicit BackgroundWork(std::function<std::size_t()> most_threads);
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;
  ~BackgroundWork();

  struct Task {
    std::function<void()> run;
    std::function<void()> drop;  ///< Called in place of run() where the work ends before it began.
  };
  /// Neither function may throw. Where no thread can be started at all, the task runs before add() returns.
  void add(Task task);

 private:
  struct Queue;
  static void work(const std::shared_ptr<Queue>& queue);

  std::function<std::size_t()> most_threads_;
  std::shared_ptr<Queue> queue_;  ///< The threads' as well: one that ends its owner outlives it for a moment.
  std::mutex threads_mutex_;
  std::vector<std::thread> threads_;
};

}  // namespace kernwright
