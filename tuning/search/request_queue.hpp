// A worker's standard input, read on a thread of its own, so that the end of the parent is the end of the worker whatever it is doing.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

namespace kernwright::tuning {

/// Ends the process (_exit) where the stream ends: a kernel that hangs cannot be waited for. One a process, from its start to its end.
class RequestQueue {
 public:
  explicit RequestQueue(int descriptor);

  /// The next line; waits for it.
  std::string next();

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::string> lines;
  };
  static void read(int descriptor, State& state);

  std::shared_ptr<State> state_;  ///< The reading thread's too, which sits in read(2) until the process ends.
};

}  // namespace kernwright::tuning
