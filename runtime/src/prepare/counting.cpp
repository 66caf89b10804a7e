#include "prepare/counting.hpp"

namespace kernwright {

std::shared_ptr<LiveCounters::Count> LiveCounters::launches_of(const std::string& template_name) {
  const std::lock_guard lock(mutex_);
  auto& launches = launches_[template_name];
  if (!launches) launches = std::make_shared<Count>(0);
  return launches;
}

Counters LiveCounters::read() const {
  Counters counters;
  counters.memory_hits = memory_hits;
  counters.store_hits = store_hits;
  counters.misses = misses;
  counters.compiles = compiles;
  counters.compile_seconds = static_cast<double>(compile_microseconds.load()) * 1e-6;
  counters.waits = waits;
  counters.bad_entries = bad_entries;
  counters.step_downs = step_downs;
  counters.fits_read = fits_read;
  counters.fits_written = fits_written;
  counters.store_warnings = store_warnings;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, launches] : launches_) counters.launches.emplace(name, launches->load());
  return counters;
}

}  // namespace kernwright
