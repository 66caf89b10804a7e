#include "prepare/background_work.hpp"

#include <system_error>
#include <utility>

namespace kernwright {

BackgroundWork::~BackgroundWork() {
  std::deque<Task> dropped;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    dropped.swap(tasks_);
  }
  changed_.notify_all();
  for (const Task& task : dropped) task.drop();
  for (std::thread& thread : threads_) thread.join();
}

void BackgroundWork::add(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (tasks_.size() > idle_ && threads_.size() < most_) {
      try {
        threads_.emplace_back([this] { work(); });
      } catch (const std::system_error&) {
        if (threads_.empty()) {
          task = std::move(tasks_.back());
          tasks_.pop_back();
        }
      }
    }
    if (!threads_.empty()) task = {};
  }
  if (task.run) task.run();
  changed_.notify_one();
}

void BackgroundWork::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
    --idle_;
    if (ending_) return;
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task.run();
    lock.lock();
  }
}

}  // namespace kernwright
