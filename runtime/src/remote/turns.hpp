// One caller at a time, and nobody waits for longer than a deadline.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

#include "remote/deadline.hpp"

namespace kernwright {

/// std::timed_mutex would do, but ThreadSanitizer of GCC 12 does not see its timed lock.
class Turns {
 public:
  /// Held until it goes.
  class Turn {
   public:
    Turn(Turn&& other) noexcept : turns_(std::exchange(other.turns_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (turns_ != nullptr) turns_->give_back();
    }
    explicit operator bool() const noexcept { return turns_ != nullptr; }

   private:
    friend class Turns;
    explicit Turn(Turns* turns) noexcept : turns_(turns) {}
    Turns* turns_;
  };

  /// False at the deadline.
  [[nodiscard]] Turn take(Deadline deadline) {
    std::unique_lock lock(mutex_);
    if (!free_.wait_until(lock, deadline.moment(), [&] { return !taken_; })) return Turn(nullptr);
    taken_ = true;
    return Turn(this);
  }

 private:
  void give_back() {
    {
      const std::lock_guard lock(mutex_);
      taken_ = false;
    }
    free_.notify_one();
  }
  std::mutex mutex_;
  std::condition_variable free_;
  bool taken_ = false;
};

}  // namespace kernwright
