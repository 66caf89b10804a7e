#include "backend/host/host_kernel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <system_error>
#include <vector>

#include "backend/host/fault.hpp"
#include "backend/host/single_thread.hpp"

namespace kernwright::host {
namespace {

/// Statuses that need no words of their own; the others count up from 1 and name a remembered problem.
enum Status : int {
  status_no_memory = -1,
  status_shared_memory = -2,
  status_threads = -3,
  status_grid = -4,
  status_stream = -5,
  status_cluster = -6,
};
constexpr std::size_t kRemembered = 16;

}  // namespace

HostKernel::HostKernel(ObjectFile object, DeviceInfo device, std::shared_ptr<Interpreter> interpreter)
    : object_(std::move(object)), device_(std::move(device)), interpreter_(std::move(interpreter)) {}

int HostKernel::refusal(const Grid& grid, const Plan& plan, void* stream) const noexcept {
  if (stream != nullptr) return status_stream;
  if (plan.threads < 1 || plan.threads > kMaxThreads) return status_threads;
  if (plan.dynamic_shared < 0 || static_cast<std::uint64_t>(plan.dynamic_shared) > device_.shared_memory_per_block.count)
    return status_shared_memory;
  if (plan.cluster > 1) return status_cluster;
  if (grid.x < 1 || grid.y < 1 || grid.z < 1 || grid.x > 0x7fffffffU || grid.y > 0xffffU || grid.z > 0xffffU) return status_grid;
  return 0;
}

Result<> HostKernel::fit(const Plan& plan) {
  const std::vector<std::byte> zeros(static_cast<std::size_t>(std::max(0, plan.params_bytes)));
  const int status = launch(Grid{}, plan, zeros.data(), nullptr);
  if (status == 0) return {};
  Error error = explain(status, "the probe launch of an empty problem", nullptr);
  if (status == status_shared_memory && plan.dynamic_shared >= 0) {
    return fail(ErrorCode::does_not_fit, fmt::format("needs {} bytes of dynamic shared memory a block, the host device has {}",
                                                     plan.dynamic_shared, device_.shared_memory_per_block.count));
  }
  return fail(std::move(error));
}

int HostKernel::launch(const Grid& grid, const Plan& plan, const void* params, void* stream) noexcept {
  if (const int refused = refusal(grid, plan, stream); refused != 0) return refused;
  const LaunchRequest request{&object_.interface(), params, grid, static_cast<unsigned>(plan.threads),
                              static_cast<std::size_t>(plan.dynamic_shared)};
  if (grid != Grid{} || plan.threads != 1 || interpreter_->mode() != HostMode::fibers) return launch_blocks(request);
  try {
    std::string problem;
    return run_single_thread(request, problem) ? 0 : remember(std::move(problem));
  } catch (...) {
    return status_no_memory;
  }
}

int HostKernel::launch_blocks(const LaunchRequest& request) noexcept {
  try {
    std::unique_lock<std::mutex> lock(one_at_a_time_, std::defer_lock);
    if (interpreter_->mode() != HostMode::fibers) lock.lock();
    std::string problem = interpreter_->run(request);
    if (problem.empty()) return 0;
    return problem == kOutOfMemory ? status_no_memory : remember(std::move(problem));
  } catch (const std::system_error& error) {
    return remember(fmt::format("cannot start an OS thread for each of {} CUDA threads: {}", request.threads, error.what()));
  } catch (...) {
    return status_no_memory;
  }
}

int HostKernel::remember(std::string problem) noexcept {
  try {
    const std::lock_guard lock(problems_mutex_);
    last_status_ = last_status_ == 0x7fffffff ? 1 : last_status_ + 1;
    problems_.push_back({last_status_, std::move(problem)});
    if (problems_.size() > kRemembered) problems_.pop_front();
    return last_status_;
  } catch (...) {
    return status_no_memory;
  }
}

Error HostKernel::explain(int status, const std::string& what, void*) {
  const auto error = [&](ErrorCode code, std::string_view words) { return Error{code, fmt::format("{}: {}", what, words), {}}; };
  switch (status) {
    case status_no_memory: return error(ErrorCode::out_of_memory, "the host ran out of memory");
    case status_shared_memory:
      return error(ErrorCode::does_not_fit, fmt::format("needs more dynamic shared memory a block than the host device's {} bytes",
                                                        device_.shared_memory_per_block.count));
    case status_threads:
      return error(ErrorCode::launch_failed, fmt::format("the plan's threads a block are not between 1 and {}", kMaxThreads));
    case status_grid: return error(ErrorCode::launch_failed, "the grid is not between 1 and 2147483647 blocks in x, 65535 in y and z");
    case status_stream: return error(ErrorCode::invalid_argument, "the host device has one stream, null; another was given");
    case status_cluster: return error(ErrorCode::unsupported, "the host device has no clusters of blocks");
    default: break;
  }
  const std::lock_guard lock(problems_mutex_);
  const auto found = std::find_if(problems_.begin(), problems_.end(), [&](const Problem& problem) { return problem.status == status; });
  return error(ErrorCode::launch_failed, found == problems_.end()
                                             ? fmt::format("failed (status {}; its description was dropped after later failures)", status)
                                             : found->words);
}

}  // namespace kernwright::host
