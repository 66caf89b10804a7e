#include "backend/host/worker_pool.hpp"

#include <algorithm>
#include <system_error>

namespace kernwright::host {

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  offered_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::run(const std::function<void()>& work, unsigned helpers) {
  Call call{&work, std::min(helpers, limit_), 0};
  if (call.wanted != 0) {
    const std::lock_guard lock(mutex_);
    try {
      while (threads_.size() < call.wanted) threads_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {
      // The machine gives no more threads: the ones there are help, and the caller works in any case.
    }
    calls_.push_back(&call);
    offered_.notify_all();
  }
  work();
  std::unique_lock lock(mutex_);
  std::erase(calls_, &call);
  left_.wait(lock, [&] { return call.working == 0; });
}

void WorkerPool::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    offered_.wait(lock, [&] { return quit_ || !calls_.empty(); });
    if (quit_) return;
    Call& call = *calls_.front();
    ++call.working;
    if (--call.wanted == 0) calls_.pop_front();
    lock.unlock();
    (*call.work)();
    lock.lock();
    if (--call.working == 0) left_.notify_all();
  }
}

}  // namespace kernwright::host
