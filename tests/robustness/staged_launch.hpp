// One launch of test/scale by a runtime of its own, as a process of its own would do it, on a given backend and with given system calls.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "kernwright/runtime.hpp"
#include "platform/posix_calls.hpp"

namespace kernwright::robustness {

struct StagedLaunch {
  Result<Kernel> kernel;
  std::vector<std::string> warnings;
  Counters counters;
  int sleeps = 0;  ///< How often it waited for another process.
};

/// Time stands still but for waits, which take none. `set` changes the options: by default one writable store without a limit, none in
/// front of it, not sealed.
StagedLaunch launch_staged(const std::shared_ptr<Backend>& backend, const std::filesystem::path& store, std::shared_ptr<PosixCalls> calls,
                           const std::function<void(RuntimeOptions&)>& set = nullptr);

}  // namespace kernwright::robustness
