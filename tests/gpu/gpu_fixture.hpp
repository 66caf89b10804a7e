// What every GPU test starts from.
#pragma once

#include "kernwright/runtime.hpp"

namespace kernwright::gpu {

inline constexpr DeviceId kDevice = DeviceId::cuda(0);

/// A runtime over the store KERNWRIGHT_TEST_STORE (memory only where it is unset), with its warnings on stderr.
Runtime runtime(RuntimeOptions options = {});

}  // namespace kernwright::gpu
