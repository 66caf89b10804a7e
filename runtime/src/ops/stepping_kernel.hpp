// A prepared kernel that goes back to prepare when a launch is refused for resources.
#pragma once

#include <atomic>
#include <forward_list>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include "kernwright/runtime.hpp"

namespace kernwright {

/// Thread-safe. launch() reads one atomic pointer on the way to the kernel; kernels it stepped down from live as long as it does.
class SteppingKernel {
 public:
  static Result<std::unique_ptr<SteppingKernel>> create(const Runtime& runtime, PrepareRequest request) {
    auto kernel = runtime.prepare(request);
    if (!kernel) return fail(std::move(kernel.error()));
    return std::unique_ptr<SteppingKernel>(new SteppingKernel(runtime, std::move(request), std::move(*kernel)));
  }

  [[nodiscard]] const Kernel& kernel() const noexcept { return *current_.load(std::memory_order_acquire); }
  [[nodiscard]] const Plan& plan() const noexcept { return kernel().plan(); }

  /// `grid` is a Grid, or computes one from the plan or from the kernel that is about to be launched. A launch refused for resources
  /// outside a capture prepares the next candidate and launches that; while the stream captures it is the error.
  template <class GridSource, class Params>
  Result<> launch(const GridSource& grid, const Params& params, StreamHandle stream) {
    if (in_forked_child()) return refused_in_child();
    for (;;) {
      const Kernel& kernel = this->kernel();
      Result<> launched = kernel.launch(grid_for(grid, kernel), params, stream);
      if (launched || launched.error().code != ErrorCode::does_not_fit) return launched;
      if (auto stepped = step_behind(kernel, stream, launched.error()); !stepped) return stepped;
    }
  }

 private:
  SteppingKernel(const Runtime& runtime, PrepareRequest request, Kernel kernel) : runtime_(runtime), request_(std::move(request)) {
    kernels_.push_front(std::move(kernel));
    current_.store(&kernels_.front(), std::memory_order_release);
  }
  static Grid grid_for(const Grid& grid, const Kernel&) { return grid; }
  template <class GridSource>
  static Grid grid_for(const GridSource& grid, const Kernel& kernel) {
    if constexpr (std::is_invocable_v<const GridSource&, const Kernel&>) {
      return grid(kernel);
    } else {
      return grid(kernel.plan());
    }
  }
  [[nodiscard]] bool in_forked_child() const noexcept;  ///< Of the process that made the runtime: one load.
  [[nodiscard]] Result<> refused_in_child() const;
  Result<> step_behind(const Kernel& refused, StreamHandle stream, Error& error);
  Result<> prepare_behind(const Kernel& refused);

  Runtime runtime_;
  PrepareRequest request_;
  std::mutex stepping_;
  std::forward_list<Kernel> kernels_;
  std::atomic<const Kernel*> current_{nullptr};
};

}  // namespace kernwright
