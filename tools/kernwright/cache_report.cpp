#include "cache_report.hpp"

#include <algorithm>
#include <numeric>

namespace kernwright::tool {

CacheEntryReport entry_report(const Store& store, const Store::Listed& listed) {
  CacheEntryReport report;
  report.store = store.folder().string();
  report.key = listed.key;
  report.size = listed.size;
  report.allocated = listed.allocated;
  report.binary = listed.binary;
  report.modified_seconds = listed.modified_seconds;
  report.used_seconds = listed.used_seconds;
  report.problem = listed.problem;
  report.artifact = listed.artifact;
  if (listed.artifact == nullptr && report.problem.empty()) report.problem = "it cannot be read";
  return report;
}

std::size_t CacheStoreReport::bad() const {
  return static_cast<std::size_t>(std::ranges::count_if(entries, [](const CacheEntryReport& entry) { return !entry.problem.empty(); }));
}

Bytes CacheStoreReport::size() const {
  return std::accumulate(entries.begin(), entries.end(), Bytes{},
                         [](Bytes sum, const CacheEntryReport& entry) { return sum + entry.size; });
}

std::size_t CacheVerifyReport::bad() const {
  return std::accumulate(stores.begin(), stores.end(), std::size_t{0},
                         [](std::size_t sum, const CacheVerifyStoreReport& store) { return sum + store.verification.bad(); });
}

}  // namespace kernwright::tool
