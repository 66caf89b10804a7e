// Threads of the runtime's own for prepare_async: started when first needed, at most so many at once.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace kernwright {

/// Thread-safe. The destructor finishes what runs and drops what has not begun.
class BackgroundWork {
 public:
  explicit BackgroundWork(std::size_t threads) : most_(threads) {}
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
  void work();

  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  std::size_t idle_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kernwright
