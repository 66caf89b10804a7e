#include "backend/host/fiber_block.hpp"

#include <bit>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "backend/host/fault.hpp"
#include "backend/host/sanitizers.hpp"

namespace kernwright::host {
namespace {

using kw::simt::kWarpSize;
using kw::simt::Location;
using kw::simt::ThreadContext;

/// SplitMix64: "Fast splittable pseudorandom number generators", OOPSLA 2014.
std::uint64_t split_mix(std::uint64_t& state) noexcept {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15U);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
  z = (z ^ z >> 27) * 0x94d049bb133111ebU;
  return z ^ z >> 31;
}

}  // namespace

// The primitives. Those in which fibers change own nothing across the change: an abandoned fiber's frames are never left.
struct FiberBlock::Calls {
  static Thread& thread(ThreadContext* context) noexcept { return *static_cast<Thread*>(context->scheduler); }

  KERNWRIGHT_SWITCHES_FIBERS static void barrier(ThreadContext* context, unsigned id, unsigned threads, Location where) {
    Thread& self = thread(context);
    FiberBlock& block = *self.block;
    switch (block.state_.arrive_at_barrier(self.index, id, threads, where, block.problem_)) {
      case BlockState::Outcome::fault: block.fail(self); break;
      case BlockState::Outcome::go_on: block.release_barrier(id); break;
      case BlockState::Outcome::wait: break;
    }
    block.suspend(self);  // the last to come, too: it goes on at a random place among the others
  }

  KERNWRIGHT_SWITCHES_FIBERS static const void* exchange(ThreadContext* context, const void* mine, unsigned bytes, unsigned mask,
                                                         Location where) {
    Thread& self = thread(context);
    FiberBlock& block = *self.block;
    switch (block.state_.arrive_at_collective(self.index, mine, bytes, mask, where, block.problem_)) {
      case BlockState::Outcome::fault: block.fail(self); break;
      case BlockState::Outcome::go_on: block.release_lanes(self.index); break;
      case BlockState::Outcome::wait: block.suspend(self); break;
    }
    return block.state_.warp(self.index / kWarpSize).result(self.index % kWarpSize);
  }

  KERNWRIGHT_SWITCHES_FIBERS static void async_copy(ThreadContext* context, void* shared, const void* global, unsigned copy_bytes,
                                                    unsigned source_bytes, Location where) {
    Thread& self = thread(context);
    if (AsyncCopies::problem(shared, global, copy_bytes, source_bytes) != nullptr) {
      self.block->problem_ = self.block->state_.async_copy_problem(self.index, shared, global, copy_bytes, source_bytes, where);
      self.block->fail(self);
    }
    self.copies.add(shared, global, copy_bytes, source_bytes);
  }
  static void async_commit(ThreadContext* context) { thread(context).copies.commit(); }
  static void async_wait(ThreadContext* context, unsigned groups_left) { thread(context).copies.wait(groups_left); }

  KERNWRIGHT_SWITCHES_FIBERS static void body(void* argument) {
    Thread& self = *static_cast<Thread*>(argument);
    FiberBlock& block = *self.block;
    try {
      block.request_->object->run(&self.context, block.request_->params);
    } catch (...) {  // only memory can have run out inside a primitive
      block.problem_ = kOutOfMemory;
    }
    block.end(self);
  }

  static constexpr kw::simt::Primitives table{barrier, exchange, async_copy, async_commit, async_wait};
};

std::string FiberBlock::run(const LaunchRequest& request, std::uint64_t block, std::uint64_t seed) {
  const unsigned count = request.threads;
  const std::size_t bytes = request.dynamic_shared_bytes;
  if (exact_shared_ ? shared_.bytes() != bytes || shared_.data() == nullptr : shared_.bytes() < bytes) {
    shared_ = AlignedBuffer(kSharedAlignment, bytes);
  }
  if (bytes != 0) std::memset(shared_.data(), kUnwrittenShared, bytes);
  while (threads_.size() < count) threads_.push_back(std::make_unique<Thread>(*this, static_cast<unsigned>(threads_.size())));
  turn_.clear();
  taken_ = 0;
  next_.clear();
  turn_.reserve(count);
  next_.reserve(count);
  finished_ = 0;
  problem_.clear();
  random_ = seed;
  random_ = split_mix(random_) ^ block;

  const kw::simt::Index index = request.block(block);
  state_.reset(index, count);
  kw::simt::ThreadContext context = request.context(index, Calls::table);
  context.dynamic_shared = shared_.data();
  for (unsigned i = 0; i < count; ++i) {
    Thread& thread = *threads_[i];
    context.thread = {i, 0, 0};
    context.scheduler = &thread;
    thread.context = context;
    thread.copies.clear();
    thread.fiber.start(&Calls::body, &thread);
    next_.push_back(i);
  }

  request_ = &request;
  current_ = request.object->current();
  run_fibers();
  *current_ = nullptr;
  if (finished_ != count && problem_.empty()) problem_ = state_.deadlock();
  return std::move(problem_);
}

KERNWRIGHT_SWITCHES_FIBERS void FiberBlock::run_fibers() {
  OwnStack own;
  own_stack_ = &own;
  own.switch_to(pick()->fiber);
  own_stack_ = nullptr;
}

FiberBlock::Thread* FiberBlock::pick() noexcept {
  if (taken_ == turn_.size()) {
    if (next_.empty()) return nullptr;
    turn_.clear();
    taken_ = 0;
    turn_.swap(next_);
    for (std::size_t left = turn_.size(); left > 1; --left) {  // a uniform shuffle: the bias of a 64-bit remainder does not matter
      std::swap(turn_[left - 1], turn_[split_mix(random_) % left]);
    }
  }
  return threads_[turn_[taken_++]].get();
}

void FiberBlock::release_barrier(unsigned id) {
  NamedBarrier& barrier = state_.barrier(id);
  next_.insert(next_.end(), barrier.waiting().begin(), barrier.waiting().end());
  barrier.take();
}

void FiberBlock::release_lanes(unsigned last) {
  const unsigned first = last / kWarpSize * kWarpSize;
  for (unsigned left = state_.warp(last / kWarpSize).released(); left != 0; left &= left - 1) {
    const unsigned lane = first + static_cast<unsigned>(std::countr_zero(left));
    if (lane != last) next_.push_back(lane);
  }
}

KERNWRIGHT_SWITCHES_FIBERS void FiberBlock::suspend(Thread& thread) {
  Thread* const next = pick();
  if (next == &thread) return;
  if (next == nullptr) {
    thread.fiber.switch_to(*own_stack_);
  } else {
    thread.fiber.switch_to(next->fiber);
  }
  *current_ = &thread.context;
}

KERNWRIGHT_SWITCHES_FIBERS void FiberBlock::end(Thread& thread) {
  ++finished_;
  state_.set_finished(thread.index);
  Thread* const next = problem_.empty() ? pick() : nullptr;
  if (next == nullptr) {
    thread.fiber.switch_to(*own_stack_, true);
  } else {
    thread.fiber.switch_to(next->fiber, true);
  }
  std::abort();  // nobody switches back
}

KERNWRIGHT_SWITCHES_FIBERS void FiberBlock::fail(Thread& thread) {
  thread.fiber.switch_to(*own_stack_, true);
  std::abort();  // nobody switches back
}

}  // namespace kernwright::host
