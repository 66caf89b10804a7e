#include "ops/stepping_kernel.hpp"

#include "prepare/boundary.hpp"
#include "prepare/runtime_state.hpp"

namespace kernwright {

bool SteppingKernel::in_forked_child() const noexcept {
  return runtime_.state().fork_guard.in_child();
}

Result<> SteppingKernel::refused_in_child() const {
  return runtime_.state().fork_guard.check();
}

Result<> SteppingKernel::step_behind(const Kernel& refused, StreamHandle stream, Error& error) {
  if (runtime_.state().backend(request_.device.backend)->is_capturing(stream)) {
    error.message += "; the stream captures, so no smaller tile is prepared: run the op once outside the capture first";
    return tl::unexpected<Error>(std::move(error));
  }
  return without_exceptions([&] { return prepare_behind(refused); });
}

Result<> SteppingKernel::prepare_behind(const Kernel& refused) {
  const std::lock_guard lock(stepping_);
  if (&kernel() != &refused) return {};  // another thread stepped down meanwhile
  PrepareRequest next = request_;
  next.after = refused.report().tile_fitted;
  auto kernel = runtime_.prepare(next);
  if (!kernel) return fail(std::move(kernel.error()));
  kernels_.push_front(std::move(*kernel));
  current_.store(&kernels_.front(), std::memory_order_release);
  return {};
}

}  // namespace kernwright
