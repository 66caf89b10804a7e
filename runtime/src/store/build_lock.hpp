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
  std::string problem;             ///< Why none could be had; empty where none was wanted.
  bool after_failure = false;      ///< The build before, by another process, left no entry.

  /// Leaves word, while the lock is held, whether the store has the entry now. One who is killed leaves none, and the next one takes over.
  void done(bool entry_is_there) const noexcept;
};

/// Waits while another process holds the key's lock, at most `limit_seconds`, and logs for whom. `what` names the build in the log. A lock
/// whose holder was killed is free at once; one that was not released in time is passed over, since a second build harms nobody.
///
/// After a build that left no entry (the source does not compile, the disk is full) nobody waits until one has left an entry again: each
/// would find the same, one behind the other. Those who waited for that build get no lock then, and there is no problem.
BuildLock lock_build(Store& store, const EntryKey& key, const std::string& what, double limit_seconds, Clock& clock, const Logger& logger);

}  // namespace kernwright
