// Prepare: from a request to a loaded kernel, stepping the tile down where it does not fit.
#pragma once

#include "kernwright/runtime.hpp"
#include "prepare/runtime_state.hpp"

namespace kernwright {

/// See Runtime::prepare. Does not look in the registry.
Result<Kernel> prepare_kernel(Runtime::State& state, const PrepareRequest& request);

/// See Runtime::warm.
Result<std::vector<WarmedItem>> warm_template(Runtime::State& state, const WarmRequest& request);

}  // namespace kernwright
