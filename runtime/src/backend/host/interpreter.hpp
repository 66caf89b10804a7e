// Runs launches in one of the three modes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/host/fiber_block.hpp"
#include "backend/host/launch_request.hpp"
#include "backend/host/worker_pool.hpp"
#include "kernwright/runtime.hpp"

namespace kernwright::host {

/// Thread-safe; shared by a backend and the kernels it has loaded.
class Interpreter {
 public:
  Interpreter(HostMode mode, unsigned workers, std::uint64_t seed);

  /// Empty, or why the launch could not be finished. Throws std::bad_alloc, std::system_error. Kernels whose block-shared variables are
  /// plain statics (fibers_asan, threads) must not be launched twice at once.
  std::string run(const LaunchRequest& request);

  [[nodiscard]] HostMode mode() const noexcept { return mode_; }
  /// Threads that run blocks at once.
  [[nodiscard]] unsigned workers() const noexcept { return workers_; }

 private:
  std::string run_on_fibers(const LaunchRequest& request);
  std::unique_ptr<FiberBlock> take_runner();
  void give_runner(std::unique_ptr<FiberBlock> runner) noexcept;

  const HostMode mode_;
  const unsigned workers_;
  const std::uint64_t seed_;
  WorkerPool pool_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<FiberBlock>> idle_;
};

}  // namespace kernwright::host
