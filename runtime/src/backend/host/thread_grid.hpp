// Mode `threads`: one OS thread a CUDA thread, one block at a time. Nothing but the kernel's own barriers and collectives orders the
// threads of a block, so that ThreadSanitizer reports what they leave unordered.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/host/aligned_buffer.hpp"
#include "backend/host/async_copies.hpp"
#include "backend/host/block_state.hpp"
#include "backend/host/launch_request.hpp"

namespace kernwright::host {

/// One launch. The memory of a block is an exact heap block, as in FiberBlock.
class ThreadGrid {
 public:
  explicit ThreadGrid(const LaunchRequest& request);
  ThreadGrid(const ThreadGrid&) = delete;
  ThreadGrid& operator=(const ThreadGrid&) = delete;

  /// Empty, or why a block could not go on. Throws std::system_error where an OS thread cannot be had, std::bad_alloc.
  std::string run();

 private:
  struct Guard {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t generation = 0;
  };
  struct Thread {
    kw::simt::ThreadContext context{};
    ThreadGrid* grid = nullptr;
    unsigned index = 0;
    AsyncCopies copies;
    Guard start;                    // generation: blocks that it may start
    std::uint64_t collectives = 0;  // completed, under its warp's guard
  };
  struct Calls;

  void serve(Thread& thread);
  void start_block(std::uint64_t block);
  void release_all();
  void run_thread(Thread& thread);
  void finish(Thread& thread);
  template <class Done>
  void wait(std::unique_lock<std::mutex>& lock, Guard& guard, Done done);
  [[noreturn]] void fail(std::string problem);
  void diagnose();

  const LaunchRequest& request_;
  AlignedBuffer shared_;
  BlockState state_;
  std::vector<std::unique_ptr<Thread>> threads_;

  std::array<Guard, NamedBarrier::kCount> barriers_;
  std::vector<Guard> warps_;
  Guard finish_;  // guards finished_ and the places of threads that have finished
  unsigned finished_ = 0;
  std::atomic<unsigned> stopped_ = 0;  // threads that wait or have finished; relaxed, so that it orders nothing
  std::atomic<bool> abandoned_ = false;
  std::mutex problem_mutex_;
  std::string problem_;

  Guard done_;  // generation: threads done with the block
  std::atomic<bool> quit_ = false;
};

}  // namespace kernwright::host
