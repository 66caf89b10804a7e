// All stores of a runtime: read-only ones first, then the writable one, then the remote cache.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernwright/kernel.hpp"
#include "platform/clock.hpp"
#include "platform/logger.hpp"
#include "prepare/counting.hpp"
#include "remote/remote_tier.hpp"
#include "store/build_lock.hpp"
#include "store/store.hpp"

namespace kernwright {

/// Thread-safe. Nothing here fails: what cannot be read is a miss, what cannot be written stays in memory. Either is warned of once a
/// store.
class StoreStack {
 public:
  struct Settings {
    std::vector<std::shared_ptr<Store>> read_only;  ///< In the order in which they are asked.
    std::shared_ptr<Store> writable;                ///< Null: what is built stays in memory.
    std::shared_ptr<RemoteTier> remote;             ///< Null: none.
    double lock_wait_limit_seconds = 0;
  };
  StoreStack(Settings settings, std::shared_ptr<Clock> clock, std::shared_ptr<LiveCounters> counters, Logger logger);

  struct Found {
    ArtifactPointer artifact;
    CacheSource source = CacheSource::store;
  };
  /// The first store's entry for the request by the first of the compilers that has one. What the remote cache has goes into the writable
  /// store.
  std::optional<Found> find(const BuildRequest& request, std::span<const CompilerIdentity> compilers);
  /// What another process built into the writable store since find() looked. Says and counts nothing on a miss.
  std::optional<Found> find_new(const BuildRequest& request, const CompilerIdentity& compiler);
  /// Whether the writable store has it now.
  bool publish(const Artifact& artifact);
  /// The right to build into the writable store; see lock_build(). Without such a store, or after it failed, there is nothing to wait for.
  BuildLock lock(const EntryKey& key, const std::string& what);

  std::optional<Fit> read_fit(const FitKey& key);
  /// Whether it was written.
  bool publish_fit(const FitKey& key, const Fit& fit);
  /// Every compiler of this family ("nvrtc", "host") that a store lists, the newest version first.
  std::vector<CompilerIdentity> compilers(std::string_view family);

  /// Waits until what was published is on the remote cache, or the limit passes.
  void flush_remote(double limit_seconds);

  [[nodiscard]] bool empty() const noexcept { return stores_.empty(); }
  [[nodiscard]] const std::shared_ptr<Store>& writable() const noexcept { return writable_; }
  /// In the order in which they are asked.
  [[nodiscard]] const std::vector<std::shared_ptr<Store>>& all() const noexcept { return stores_; }
  /// Folders in the order in which they are asked.
  [[nodiscard]] std::vector<std::filesystem::path> folders() const;

 private:
  Found hit(const Store& store, Store::Lookup lookup);
  std::optional<Found> find_in_stores(const EntryKey& key, const BuildRequest& request, const CompilerIdentity& compiler);
  std::optional<Found> find_remotely(const EntryKey& key, const BuildRequest& request, const CompilerIdentity& compiler);
  bool keep(const EntryKey& key, const CompilerIdentity& compiler, std::span<const std::byte> entry);
  void trouble(const std::string& problem);
  /// Logs a warning the first time that this store is at fault, later ones at level debug.
  void say_once(const Store& store, const std::string& text);

  std::vector<std::shared_ptr<Store>> stores_;
  std::shared_ptr<Store> writable_;
  std::shared_ptr<RemoteTier> remote_;
  double lock_wait_limit_seconds_;
  std::shared_ptr<Clock> clock_;
  std::shared_ptr<LiveCounters> counters_;
  Logger logger_;
  std::atomic<bool> troubled_{false};  ///< A write or a lock failed: no other process is waited for any more.
  std::mutex said_mutex_;
  std::set<const Store*> said_;
};

}  // namespace kernwright
