// Work that nobody waits for, done by one thread in the order that it came.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "artifact.hpp"
#include "kernwright/units.hpp"
#include "remote/deadline.hpp"

namespace kernwright {

struct QueueLimits {
  std::size_t entries = 256;
  Bytes bytes = mebibytes(64);
};

/// Thread-safe. The thread starts with the first work; the destructor waits for what is being done and gives up the rest.
class BackgroundQueue {
 public:
  struct Item {
    EntryKey key;
    std::shared_ptr<const std::vector<std::byte>> entry;
  };
  using Send = std::function<void(const Item&)>;  ///< Called on the thread; has to end in bounded time.

  BackgroundQueue(QueueLimits limits, Send send);
  BackgroundQueue(const BackgroundQueue&) = delete;
  BackgroundQueue& operator=(const BackgroundQueue&) = delete;
  ~BackgroundQueue();

  /// False: full, or no thread can be had.
  bool push(Item item);
  /// Done before what waits; one at a time. False: one is there already, or no thread can be had.
  bool push_first(std::function<void()> task);
  /// Waits until nothing waits and nothing is being done.
  void wait_until_idle(Deadline deadline);

 private:
  bool start();
  void work();

  const QueueLimits limits_;
  const Send send_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  Bytes bytes_;  ///< Of items_.
  std::function<void()> task_;
  bool busy_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace kernwright
