// Threads that help a launch run its blocks. The caller of run always works, so that it ends even where no helper is free.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace kernwright::host {

class WorkerPool {
 public:
  /// At most `helpers` threads are started, when first needed.
  explicit WorkerPool(unsigned helpers) noexcept : limit_(helpers) {}
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  ~WorkerPool();

  /// Runs `work` on the calling thread and, where they are free before it returns there, on up to `helpers` threads of the pool; returns
  /// when all of them have. `work` shares out what there is to do by itself and must not throw. Any number of calls at once.
  void run(const std::function<void()>& work, unsigned helpers);

 private:
  struct Call {
    const std::function<void()>* work;
    unsigned wanted;   // helpers that may still join
    unsigned working;  // helpers inside
  };
  void serve();

  const unsigned limit_;
  std::mutex mutex_;
  std::condition_variable offered_;
  std::condition_variable left_;
  std::deque<Call*> calls_;
  std::vector<std::thread> threads_;
  bool quit_ = false;
};

}  // namespace kernwright::host
