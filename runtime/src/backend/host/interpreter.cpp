#include "backend/host/interpreter.hpp"

#include <algorithm>
#include <atomic>
#include <new>

#include "backend/host/fault.hpp"
#include "backend/host/thread_grid.hpp"

namespace kernwright::host {
namespace {

/// A guarded stack takes two of the 65,530 mappings that Linux gives a process by default; half of those are for the fibers.
constexpr unsigned kMaxFibers = 16384;

}  // namespace

Interpreter::Interpreter(HostMode mode, unsigned workers, std::uint64_t seed)
    : mode_(mode), workers_(mode == HostMode::fibers ? std::max(1U, workers) : 1U), seed_(seed), pool_(workers_ - 1) {
  idle_.reserve(workers_);
}

std::string Interpreter::run(const LaunchRequest& request) {
  if (mode_ == HostMode::threads) return ThreadGrid(request).run();
  return run_on_fibers(request);
}

std::string Interpreter::run_on_fibers(const LaunchRequest& request) {
  const std::uint64_t blocks = request.blocks();
  std::atomic<std::uint64_t> next = 0;
  std::mutex mutex;  // guards problem
  std::string problem;
  const auto work = [&]() noexcept {
    std::string found;
    try {
      std::unique_ptr<FiberBlock> runner = take_runner();
      for (;;) {
        const std::uint64_t block = next.fetch_add(1, std::memory_order_relaxed);
        if (block >= blocks) break;
        found = runner->run(request, block, seed_);
        if (!found.empty()) break;
      }
      give_runner(std::move(runner));
    } catch (const std::bad_alloc&) {
      found = kOutOfMemory;
    }
    if (found.empty()) return;
    next.store(blocks, std::memory_order_relaxed);  // the others finish the block that they are in
    const std::lock_guard lock(mutex);
    if (problem.empty()) problem = std::move(found);
  };
  const std::uint64_t useful = std::min<std::uint64_t>({blocks, workers_, std::max(1U, kMaxFibers / request.threads)});
  pool_.run(work, static_cast<unsigned>(useful - 1));
  return problem;
}

std::unique_ptr<FiberBlock> Interpreter::take_runner() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<FiberBlock>(mode_ == HostMode::fibers_asan);
  std::unique_ptr<FiberBlock> runner = std::move(idle_.back());
  idle_.pop_back();
  return runner;
}

void Interpreter::give_runner(std::unique_ptr<FiberBlock> runner) noexcept {
  const std::lock_guard lock(mutex_);
  if (idle_.size() < idle_.capacity()) idle_.push_back(std::move(runner));
}

}  // namespace kernwright::host
