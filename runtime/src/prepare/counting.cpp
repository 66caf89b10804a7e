#include "prepare/counting.hpp"

namespace kernwright {

std::shared_ptr<LiveCounters::Count> LiveCounters::launches_of(const std::string& template_name) {
  const std::lock_guard lock(mutex_);
  auto& launches = launches_[template_name];
  if (!launches) launches = std::make_shared<Count>(0);
  return launches;
}

std::shared_ptr<LiveCounters::Count> LiveCounters::hits_of(const std::string& store_folder) {
  const std::lock_guard lock(mutex_);
  auto& hits = hits_by_store_[store_folder];
  if (!hits) hits = std::make_shared<Count>(0);
  return hits;
}

Counters LiveCounters::read() const {
  Counters counters;
  counters.memory_hits = memory_hits;
  counters.store_hits = store_hits;
  counters.remote_hits = remote_hits;
  counters.remote_bad = remote_bad;
  counters.remote_unavailable = remote_unavailable;
  counters.misses = misses;
  counters.sealed_misses = sealed_misses;
  counters.compiles = compiles;
  counters.compile_seconds = static_cast<double>(compile_microseconds.load()) * 1e-6;
  counters.waits = waits;
  counters.lock_waits = lock_waits;
  counters.lock_failures = lock_failures;
  counters.bad_entries = bad_entries;
  counters.step_downs = step_downs;
  counters.fits_read = fits_read;
  counters.fits_written = fits_written;
  counters.store_warnings = store_warnings;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, launches] : launches_) counters.launches.emplace(name, launches->load());
  for (const auto& [folder, hits] : hits_by_store_) counters.hits_by_store.emplace(folder, hits->load());
  return counters;
}

}  // namespace kernwright
