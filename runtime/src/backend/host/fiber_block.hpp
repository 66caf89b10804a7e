// Runs one block at a time, its threads as fibers of the calling OS thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/host/aligned_buffer.hpp"
#include "backend/host/async_copies.hpp"
#include "backend/host/block_state.hpp"
#include "backend/host/fiber.hpp"
#include "backend/host/launch_request.hpp"

namespace kernwright::host {

/// Keeps its fibers from block to block. One OS thread at a time may use it.
class FiberBlock {
 public:
  /// `exact_shared`: dynamic shared memory is a heap block of exactly the size asked for.
  explicit FiberBlock(bool exact_shared) noexcept : exact_shared_(exact_shared) {}
  FiberBlock(const FiberBlock&) = delete;
  FiberBlock& operator=(const FiberBlock&) = delete;

  /// Runs the block with this linear index; its threads take turns at barriers in an order drawn from `seed` and the index. Answers an
  /// empty string, or why the block could not go on; its threads are abandoned then, and the next run starts afresh. Throws
  /// std::bad_alloc before any thread has run.
  std::string run(const LaunchRequest& request, std::uint64_t block, std::uint64_t seed);

 private:
  struct Thread {
    kw::simt::ThreadContext context{};
    Thread(FiberBlock& owner, unsigned number) : block(&owner), index(number), fiber(number) {}
    FiberBlock* const block;
    const unsigned index;
    Fiber fiber;
    AsyncCopies copies;
  };
  struct Calls;

  void run_fibers();
  Thread* pick() noexcept;
  void release_barrier(unsigned id);
  void release_lanes(unsigned last);
  void suspend(Thread& thread);
  // Neither returns. Not [[noreturn]]: AddressSanitizer would sweep the whole stack before each call.
  void end(Thread& thread);
  void fail(Thread& thread);

  const bool exact_shared_;
  AlignedBuffer shared_;
  BlockState state_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<unsigned> turn_;  // threads to run before the next draw, from taken_ on
  std::size_t taken_ = 0;
  std::vector<unsigned> next_;  // threads that were let go since
  std::uint64_t random_ = 0;
  unsigned finished_ = 0;
  const LaunchRequest* request_ = nullptr;
  kw::simt::ThreadContext** current_ = nullptr;
  OwnStack* own_stack_ = nullptr;
  std::string problem_;
};

}  // namespace kernwright::host
