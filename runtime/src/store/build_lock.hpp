// One build a key across processes.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "platform/logger.hpp"
#include "store/store.hpp"

namespace kernwright {

struct BuildLock {
  std::unique_ptr<HeldLock> held;  ///< Null: none could be had; the build goes on without.
  bool waited = false;             ///< Another process had it meanwhile: the entry may be there now.
  std::string problem;             ///< Why none could be had; empty where none was wanted.
};

/// What a holder says (HeldLock::say) whose build left no entry. Those who waited then build side by side: each would find the same, and
/// one behind the other they would wait for that in vain.
inline constexpr std::string_view kNoEntry = "a build that left no entry";

/// Waits while another process holds the key's lock, at most `limit_seconds`, and logs for whom. `what` names the build in the log. A lock
/// whose holder was killed is free at once; one that was not released in time is passed over, since a second build harms nobody. After a
/// holder that said kNoEntry there is no lock to be had and no problem.
BuildLock lock_build(Store& store, const EntryKey& key, const std::string& what, double limit_seconds, Clock& clock, const Logger& logger);

}  // namespace kernwright
