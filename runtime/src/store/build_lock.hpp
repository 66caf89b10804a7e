// One build a key across processes.
#pragma once

#include <memory>
#include <string>

#include "platform/logger.hpp"
#include "store/store.hpp"

namespace kernwright {

struct BuildLock {
  std::unique_ptr<HeldLock> held;  ///< Null: none could be had; the build goes on without.
  bool waited = false;             ///< Another process had it meanwhile: the entry may be there now.
  std::string problem;             ///< Why none could be had.
};

/// Waits while another process holds the key's lock, at most `limit_seconds`, and logs for whom. `what` names the build in the log. A lock
/// whose holder was killed is free at once; one that was not released in time is passed over, since a second build harms nobody.
BuildLock lock_build(Store& store, const EntryKey& key, const std::string& what, double limit_seconds, Clock& clock, const Logger& logger);

}  // namespace kernwright
