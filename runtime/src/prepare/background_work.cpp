#include "prepare/background_work.hpp"

#include <condition_variable>
#include <deque>
#include <system_error>
#include <utility>

namespace kernwright {

struct BackgroundWork::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Task> tasks;
  std::size_t idle = 0;  ///< Threads that wait for a task.
  bool ending = false;
};

BackgroundWork::BackgroundWork(std::function<std::size_t()> most_threads)
    : most_threads_(std::move(most_threads)), queue_(std::make_shared<Queue>()) {}

BackgroundWork::~BackgroundWork() {
  std::deque<Task> dropped;
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->ending = true;
    dropped.swap(queue_->tasks);
  }
  queue_->changed.notify_all();
  for (const Task& task : dropped) task.drop();
  for (std::thread& thread : threads_) {
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

void BackgroundWork::add(Task task) {
  bool has_thread = true;
  {
    const std::lock_guard threads(threads_mutex_);
    bool more = threads_.empty();
    if (!more && threads_.size() < most_threads_()) {
      const std::lock_guard lock(queue_->mutex);
      more = queue_->tasks.size() >= queue_->idle;
    }
    if (more) {
      try {
        threads_.emplace_back([queue = queue_] { work(queue); });
      } catch (const std::system_error&) {
        has_thread = !threads_.empty();
      }
    }
  }
  if (!has_thread) {
    task.run();
    return;
  }
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->tasks.push_back(std::move(task));
  }
  queue_->changed.notify_one();
}

void BackgroundWork::work(const std::shared_ptr<Queue>& queue) {
  std::unique_lock lock(queue->mutex);
  for (;;) {
    ++queue->idle;
    queue->changed.wait(lock, [&] { return queue->ending || !queue->tasks.empty(); });
    --queue->idle;
    if (queue->ending) return;
    Task task = std::move(queue->tasks.front());
    queue->tasks.pop_front();
    lock.unlock();
    task.run();
    task = {};  // what it held may be the last handle of the owner
    lock.lock();
  }
}

}  // namespace kernwright
