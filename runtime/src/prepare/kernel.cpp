#include "kernwright/kernel.hpp"

#include <fmt/format.h>

#include "core/specialised_name.hpp"
#include "prepare/kernel_state.hpp"

namespace kernwright {
namespace {

// CUDA C++ programming guide, "Technical specifications per compute capability": the largest grid in each dimension.
constexpr std::uint32_t kLargestGridX = 0x7fff'ffff;
constexpr std::uint32_t kLargestGridYZ = 65'535;

bool legal(const Grid& grid) noexcept {
  return grid.x >= 1 && grid.x <= kLargestGridX && grid.y >= 1 && grid.y <= kLargestGridYZ && grid.z >= 1 && grid.z <= kLargestGridYZ;
}

std::string describe(const Kernel::State& state, const Grid& grid) {
  const PrepareReport& report = state.report;
  return fmt::format("launching {} {} on {}, grid {} x {} x {}, {} threads, {} bytes of dynamic shared memory",
                     specialised_name(report.template_name, report.specialisation), report.tile_fitted.text(), to_string(report.device),
                     grid.x, grid.y, grid.z, state.plan.threads, state.plan.dynamic_shared);
}

Error refused_arguments(const Kernel::State& state, const Grid& grid, std::size_t params_bytes) {
  std::string problem;
  if (params_bytes != static_cast<std::size_t>(state.plan.params_bytes)) {
    problem = fmt::format("the parameter struct has {} bytes, the kernel takes {}", params_bytes, state.plan.params_bytes);
  } else {
    problem = fmt::format("the grid is outside 1..{} x 1..{} x 1..{}", kLargestGridX, kLargestGridYZ, kLargestGridYZ);
  }
  return Error{ErrorCode::invalid_argument, std::move(problem), describe(state, grid)};
}

}  // namespace

const Plan& Kernel::plan() const noexcept {
  return state_->plan;
}
const PrepareReport& Kernel::report() const noexcept {
  return state_->report;
}

Result<> Kernel::launch_bytes(const Grid& grid, const void* params, std::size_t params_bytes, StreamHandle stream) const {
  const State& state = *state_;
  if (params_bytes != static_cast<std::size_t>(state.plan.params_bytes) || !legal(grid)) {
    return fail(refused_arguments(state, grid, params_bytes));
  }
  const int status = state.loaded->launch(grid, state.plan, params, stream.native);
  if (status != 0) return fail(state.loaded->explain(status, describe(state, grid), stream.native));
  count(*state.launches);
  return {};
}

}  // namespace kernwright
