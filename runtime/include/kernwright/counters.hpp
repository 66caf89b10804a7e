// What the runtime did, so that a silent fallback can be seen.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace kernwright {

struct Counters {
  std::uint64_t memory_hits = 0;                       ///< Artifacts answered by a build or load of this process.
  std::uint64_t store_hits = 0;                        ///< Artifacts read from a disk store.
  std::map<std::string, std::uint64_t> hits_by_store;  ///< The same, by the store's folder.
  std::uint64_t remote_hits = 0;                       ///< Artifacts fetched from the remote cache.
  std::uint64_t remote_bad = 0;                        ///< What the remote cache had was not authentic, too large, or no such entry.
  std::uint64_t remote_unavailable = 0;  ///< Fetches that it did not answer in time, or that it was not asked for after failures.
  std::uint64_t misses = 0;              ///< Artifacts found in no store.
  std::uint64_t sealed_misses = 0;       ///< Those of them that were an error because the runtime is sealed.
  std::uint64_t compiles = 0;            ///< Compiler runs, plan tables included.
  double compile_seconds = 0;
  std::uint64_t waits = 0;          ///< Requests that waited for another thread's build of the same key.
  std::uint64_t lock_waits = 0;     ///< Builds that waited for another process's build of the same key.
  std::uint64_t lock_failures = 0;  ///< Builds that went on without a lock: it could not be had, or not in time.
  std::uint64_t bad_entries = 0;    ///< Store entries that did not verify and counted as misses.
  std::uint64_t step_downs = 0;     ///< Candidates passed over because they did not fit.
  std::uint64_t fits_read = 0;
  std::uint64_t fits_written = 0;
  std::uint64_t store_warnings = 0;               ///< Writes that failed; the call went on from memory.
  std::map<std::string, std::uint64_t> launches;  ///< By template name.
};

}  // namespace kernwright
