#include "backend/host/thread_grid.hpp"

#include <bit>
#include <cstring>
#include <thread>
#include <utility>

#include "backend/host/fault.hpp"

namespace kernwright::host {

using kw::simt::kWarpSize;
using kw::simt::Location;
using kw::simt::ThreadContext;

struct ThreadGrid::Calls {
  static Thread& thread(ThreadContext* context) noexcept { return *static_cast<Thread*>(context->scheduler); }

  static void barrier(ThreadContext* context, unsigned id, unsigned threads, Location where) {
    Thread& self = thread(context);
    ThreadGrid& grid = *self.grid;
    Guard& guard = grid.barriers_[id < NamedBarrier::kCount ? id : 0];
    std::unique_lock lock(guard.mutex);
    std::string problem;
    switch (grid.state_.arrive_at_barrier(self.index, id, threads, where, problem)) {
      case BlockState::Outcome::fault: lock.unlock(); grid.fail(std::move(problem));
      case BlockState::Outcome::go_on: {
        NamedBarrier& barrier = grid.state_.barrier(id);
        grid.stopped_.fetch_sub(static_cast<unsigned>(barrier.waiting().size()) - 1, std::memory_order_relaxed);
        barrier.take();
        ++guard.generation;
        guard.changed.notify_all();
        return;
      }
      case BlockState::Outcome::wait: break;
    }
    const std::uint64_t before = guard.generation;
    grid.wait(lock, guard, [&] { return guard.generation != before; });
  }

  static const void* exchange(ThreadContext* context, const void* mine, unsigned bytes, unsigned mask, Location where) {
    Thread& self = thread(context);
    ThreadGrid& grid = *self.grid;
    const unsigned index = self.index / kWarpSize;
    Guard& guard = grid.warps_[index];
    std::unique_lock lock(guard.mutex);
    std::string problem;
    const std::uint64_t before = self.collectives;
    switch (grid.state_.arrive_at_collective(self.index, mine, bytes, mask, where, problem)) {
      case BlockState::Outcome::fault: lock.unlock(); grid.fail(std::move(problem));
      case BlockState::Outcome::go_on: {
        const unsigned released = grid.state_.warp(index).released();
        for (unsigned left = released; left != 0; left &= left - 1) {
          ++grid.threads_[index * kWarpSize + static_cast<unsigned>(std::countr_zero(left))]->collectives;
        }
        grid.stopped_.fetch_sub(static_cast<unsigned>(std::popcount(released)) - 1, std::memory_order_relaxed);
        guard.changed.notify_all();
        break;
      }
      case BlockState::Outcome::wait: grid.wait(lock, guard, [&] { return self.collectives != before; }); break;
    }
    return grid.state_.warp(index).result(self.index % kWarpSize);
  }

  static void async_copy(ThreadContext* context, void* shared, const void* global, unsigned copy_bytes, unsigned source_bytes,
                         Location where) {
    Thread& self = thread(context);
    if (AsyncCopies::problem(shared, global, copy_bytes, source_bytes) != nullptr) {
      self.grid->fail(self.grid->state_.async_copy_problem(self.index, shared, global, copy_bytes, source_bytes, where));
    }
    self.copies.add(shared, global, copy_bytes, source_bytes);
  }
  static void async_commit(ThreadContext* context) { thread(context).copies.commit(); }
  static void async_wait(ThreadContext* context, unsigned groups_left) { thread(context).copies.wait(groups_left); }

  static constexpr kw::simt::Primitives table{barrier, exchange, async_copy, async_commit, async_wait};
};

ThreadGrid::ThreadGrid(const LaunchRequest& request)
    : request_(request), shared_(kSharedAlignment, request.dynamic_shared_bytes), warps_((request.threads + kWarpSize - 1) / kWarpSize) {
  for (unsigned i = 0; i < request.threads; ++i) {
    threads_.push_back(std::make_unique<Thread>());
    threads_.back()->grid = this;
    threads_.back()->index = i;
  }
}

std::string ThreadGrid::run() {
  std::vector<std::jthread> workers;
  const auto quit = [&] {
    quit_ = true;
    release_all();
    workers.clear();
  };
  try {
    workers.reserve(threads_.size());
    for (const auto& thread : threads_) workers.emplace_back([this, &thread] { serve(*thread); });
  } catch (...) {
    quit();
    throw;
  }
  for (std::uint64_t block = 0; block < request_.blocks() && !abandoned_.load(std::memory_order_relaxed); ++block) {
    start_block(block);
    std::unique_lock lock(done_.mutex);
    done_.changed.wait(lock, [&] { return done_.generation == threads_.size(); });
  }
  quit();
  return std::move(problem_);
}

void ThreadGrid::start_block(std::uint64_t block) {
  const kw::simt::Index index = request_.block(block);
  if (shared_.bytes() != 0) std::memset(shared_.data(), kUnwrittenShared, shared_.bytes());
  state_.reset(index, request_.threads);
  ThreadContext context = request_.context(index, Calls::table);
  context.dynamic_shared = shared_.data();
  for (const auto& thread : threads_) {
    context.thread = {thread->index, 0, 0};
    context.scheduler = thread.get();
    thread->context = context;
    thread->copies.clear();
  }
  finished_ = 0;
  stopped_.store(0, std::memory_order_relaxed);
  {
    const std::lock_guard lock(done_.mutex);
    done_.generation = 0;
  }
  release_all();
}

void ThreadGrid::release_all() {
  for (const auto& thread : threads_) {
    {
      const std::lock_guard lock(thread->start.mutex);
      ++thread->start.generation;
    }
    thread->start.changed.notify_one();
  }
}

// Each thread waits for its start at a guard of its own: one for all would order an early thread, which comes back to wait for the next
// block, before a late one that has yet to start this block, and hide races between them.
void ThreadGrid::serve(Thread& thread) {
  for (std::uint64_t served = 0;; ++served) {
    {
      std::unique_lock lock(thread.start.mutex);
      thread.start.changed.wait(lock, [&] { return thread.start.generation > served; });
      if (quit_) return;
    }
    run_thread(thread);
    const std::lock_guard lock(done_.mutex);
    if (++done_.generation == threads_.size()) done_.changed.notify_one();
  }
}

void ThreadGrid::run_thread(Thread& thread) {
  try {
    try {
      request_.object->run(&thread.context, request_.params);
      finish(thread);
    } catch (const std::bad_alloc&) {
      fail(std::string(kOutOfMemory));
    }
  } catch (const ThreadAbandoned&) {
  }
}

void ThreadGrid::finish(Thread& thread) {
  bool stuck = false;
  {
    const std::lock_guard lock(finish_.mutex);
    state_.set_finished(thread.index);
    ++finished_;
    stuck = stopped_.fetch_add(1, std::memory_order_relaxed) + 1 == threads_.size() && finished_ != threads_.size();
  }
  if (stuck) diagnose();
}

// A thread counts as stopped from before its guard is let go until the one that releases it has said so, under the same guard: when all
// threads count as stopped nobody is left to release anybody.
template <class Done>
void ThreadGrid::wait(std::unique_lock<std::mutex>& lock, Guard& guard, Done done) {
  if (stopped_.fetch_add(1, std::memory_order_relaxed) + 1 == threads_.size()) {
    lock.unlock();
    diagnose();
  }
  guard.changed.wait(lock, [&] { return done() || abandoned_.load(std::memory_order_relaxed); });
  if (!done()) throw ThreadAbandoned();
}

void ThreadGrid::diagnose() {
  std::string problem;
  {
    std::vector<std::unique_lock<std::mutex>> locks;
    for (Guard& guard : barriers_) locks.emplace_back(guard.mutex);
    for (Guard& guard : warps_) locks.emplace_back(guard.mutex);
    locks.emplace_back(finish_.mutex);
    problem = state_.deadlock();
  }
  fail(std::move(problem));
}

void ThreadGrid::fail(std::string problem) {
  {
    const std::lock_guard lock(problem_mutex_);
    if (problem_.empty()) problem_ = std::move(problem);
  }
  abandoned_.store(true, std::memory_order_relaxed);
  const auto wake = [](Guard& guard) {
    { const std::lock_guard lock(guard.mutex); }  // a waiter is either before its look at abandoned_ or asleep
    guard.changed.notify_all();
  };
  for (Guard& guard : barriers_) wake(guard);
  for (Guard& guard : warps_) wake(guard);
  throw ThreadAbandoned();
}

}  // namespace kernwright::host
