// The runtime's counters while they count.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "kernwright/counters.hpp"

namespace kernwright {

struct LiveCounters {
  using Count = std::atomic<std::uint64_t>;
  Count memory_hits{0}, store_hits{0}, remote_hits{0}, remote_bad{0}, remote_unavailable{0}, misses{0}, sealed_misses{0}, compiles{0},
      compile_microseconds{0}, waits{0}, lock_waits{0}, lock_failures{0}, bad_entries{0}, step_downs{0}, fits_read{0}, fits_written{0},
      store_warnings{0};

  /// The launch count of a template; kernels hold it and count without a lock.
  std::shared_ptr<Count> launches_of(const std::string& template_name);
  /// The hits of one store.
  std::shared_ptr<Count> hits_of(const std::string& store_folder);
  [[nodiscard]] Counters read() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Count>> launches_;
  std::map<std::string, std::shared_ptr<Count>> hits_by_store_;
};

inline void count(LiveCounters::Count& counter, std::uint64_t by = 1) noexcept {
  counter.fetch_add(by, std::memory_order_relaxed);
}

}  // namespace kernwright
