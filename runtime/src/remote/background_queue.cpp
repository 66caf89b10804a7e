#include "remote/background_queue.hpp"

#include <exception>
#include <system_error>
#include <utility>

namespace kernwright {
namespace {

/// Out of memory while a message is put together must not end the process: what was being done is lost, and nobody waits for it.
template <class Work>
void without_throwing(const Work& work) noexcept {
  try {
    work();
  } catch (const std::exception&) {
    return;
  }
}

}  // namespace

BackgroundQueue::BackgroundQueue(QueueLimits limits, Send send) : limits_(limits), send_(std::move(send)) {}

BackgroundQueue::~BackgroundQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool BackgroundQueue::start() {
  if (thread_.joinable()) return true;
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

bool BackgroundQueue::push(Item item) {
  {
    const std::lock_guard lock(mutex_);
    const Bytes size{item.entry->size()};
    if (items_.size() >= limits_.entries || bytes_ + size > limits_.bytes || !start()) return false;
    bytes_ = bytes_ + size;
    items_.push_back(std::move(item));
  }
  changed_.notify_all();
  return true;
}

bool BackgroundQueue::push_first(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (task_ || !start()) return false;
    task_ = std::move(task);
  }
  changed_.notify_all();
  return true;
}

void BackgroundQueue::wait_until_idle(Deadline deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline.moment(), [&] { return items_.empty() && !task_ && !busy_; });
}

void BackgroundQueue::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || task_ || !items_.empty(); });
    if (stopping_) return;
    busy_ = true;
    if (task_) {
      const auto task = std::exchange(task_, nullptr);
      lock.unlock();
      without_throwing(task);
    } else {
      const Item item = std::move(items_.front());
      items_.pop_front();
      bytes_.count -= item.entry->size();
      lock.unlock();
      without_throwing([&] { send_(item); });
    }
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace kernwright
