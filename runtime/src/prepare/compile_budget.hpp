// How many compiles run at once.
#pragma once

#include <mutex>
#include <optional>
#include <semaphore>

#include "platform/compile_jobs.hpp"

namespace kernwright {

/// Thread-safe.
class CompileBudget {
 public:
  /// 0: what the machine bears, which is counted before the first compile, since that reads files.
  explicit CompileBudget(int at_once) : at_once_(at_once) {}

  [[nodiscard]] int at_once() {
    const std::lock_guard lock(mutex_);
    return counted();
  }

  /// Waits for its turn; the turn ends with the object.
  class Turn {
   public:
    explicit Turn(CompileBudget& budget) : turns_(budget.turns()) { turns_.acquire(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() { turns_.release(); }

   private:
    std::counting_semaphore<>& turns_;
  };

 private:
  int counted() {  // under mutex_
    if (at_once_ <= 0) at_once_ = compile_jobs().count;
    return at_once_;
  }
  std::counting_semaphore<>& turns() {
    const std::lock_guard lock(mutex_);
    if (!turns_) turns_.emplace(counted());
    return *turns_;
  }

  std::mutex mutex_;
  int at_once_;
  std::optional<std::counting_semaphore<>> turns_;
};

}  // namespace kernwright
