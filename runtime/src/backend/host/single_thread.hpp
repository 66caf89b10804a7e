// A grid of one block of one thread, on the caller's own stack: what a launch costs the interpreter at the least.
#pragma once

#include <string>

#include "backend/host/launch_request.hpp"

namespace kernwright::host {

/// False where the kernel could not go on, e.g. at a barrier for more threads than its block has; `problem` says why. Allocates nothing
/// unless it answers false, the kernel copies asynchronously, or it asks for more than 16 KiB of dynamic shared memory. Throws
/// std::bad_alloc.
bool run_single_thread(const LaunchRequest& request, std::string& problem);

}  // namespace kernwright::host
