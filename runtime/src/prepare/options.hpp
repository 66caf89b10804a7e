// Runtime options against the environment.
#pragma once

#include "kernwright/runtime.hpp"

namespace kernwright {

/// Fills every empty option that has an environment variable or a default. A variable that cannot be read is invalid_argument naming it,
/// its value and what is legal. An option that is set wins over its variable.
Result<RuntimeOptions> resolve_options(RuntimeOptions options);

}  // namespace kernwright
