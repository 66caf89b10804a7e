// Saves calls of ops to files, off the path of the calls.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backend/backend.hpp"
#include "kernwright/recording.hpp"
#include "kernwright/tensor_view.hpp"
#include "platform/clock.hpp"
#include "platform/file_system.hpp"
#include "platform/logger.hpp"
#include "prepare/fork_guard.hpp"

namespace kernwright {

/// What an op was called with. Absent tensors are left out.
struct RecordedCall {
  struct Tensor {
    std::string name;
    TensorView view;
    bool output = false;  ///< Left out where only the inputs fit in what may still be written.
  };
  DeviceId device;
  StreamHandle stream;
  std::vector<Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Thread-safe. The destructor waits until everything that was copied is written.
class Recorder {
 public:
  Recorder(RecordOptions options, std::shared_ptr<FileSystem> files, std::shared_ptr<Clock> clock, Logger logger);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder();

  /// Whether a call would be saved if it came now: one load.
  [[nodiscard]] bool wants_more() const noexcept { return left_.load(std::memory_order_relaxed) > 0; }

  /// Enqueues the copies behind what the call's stream was given, and returns; the file appears, whole, once they have come. What goes
  /// wrong is warned of, each kind once: a capturing stream, a call too large for the limit, memory, the device. A file that cannot be
  /// written ends the recording.
  void record(const std::shared_ptr<Backend>& backend, const RecordedCall& call) noexcept;

 private:
  struct Image;  // a file in pinned memory
  struct Job;

  Result<> copy(const std::shared_ptr<Backend>& backend, const RecordedCall& call);
  Result<> enqueue(Job& job, const RecordedCall& call, const std::vector<std::uint64_t>& offsets);
  bool has_thread();
  void hand_over(std::unique_ptr<Job> job);
  void work();
  void finish(Job& job) noexcept;
  void warn_once(const std::string& kind, const std::string& text);

  const RecordOptions options_;
  const std::shared_ptr<FileSystem> files_;
  const std::shared_ptr<Clock> clock_;
  const Logger logger_;
  const ForkGuard fork_guard_;
  std::atomic<int> left_;  ///< 0 as well where nothing can be written.

  std::mutex recording_;  ///< One call at a time.
  int number_ = 0;
  Bytes left_bytes_;
  std::mutex warned_mutex_;
  std::set<std::string> warned_;

  std::mutex mutex_;  ///< Of what follows.
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Job>> jobs_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace kernwright
