// Which entries leave a store that grew beyond its limit: those that were not used for longest, by the store's own stamps.
#include <algorithm>
#include <optional>
#include <tuple>

#include "store/store.hpp"
#include "store/store_paths.hpp"

namespace kernwright {
namespace {

struct Candidate {
  std::filesystem::path path;
  std::string key;
  std::int64_t used_seconds = 0;
  Bytes allocated;
};

/// Every entry with its last use; temporary files that a killed process left behind are removed on the way, unless nothing may be.
Result<std::vector<Candidate>> candidates(FileSystem& files, const std::filesystem::path& store, std::int64_t now, bool dry_run) {
  std::vector<Candidate> all;
  const auto shards = files.list(entries_folder(store));
  if (!shards) return fail(Error(shards.error()));
  for (const std::string& shard : *shards) {
    if (!is_shard(shard)) continue;
    const auto names = files.list(entries_folder(store) / shard);
    if (!names) continue;
    for (const std::string& name : *names) {
      const auto path = entries_folder(store) / shard / name;
      const auto status = files.status(path);
      if (!status || !status->regular_file || status->link) continue;  // what a link leads to is not this store's
      if (is_leftover(name, *status, now)) {
        if (!dry_run) static_cast<void>(files.remove(path));
        continue;
      }
      auto key = key_of(name, kEntryEnding);
      if (!key) continue;
      std::int64_t used = status->modified_seconds;
      if (const auto stamp = files.status(stamp_path(store, *key))) used = std::max(used, stamp->modified_seconds);
      all.push_back({path, std::move(*key), used, status->allocated});
    }
  }
  std::ranges::sort(all, {}, [](const Candidate& each) { return std::tie(each.used_seconds, each.key); });
  return all;
}

/// Why it leaves, while `left` is what all entries take; nullopt where it stays.
std::optional<Store::EvictionReason> reason_for(const Candidate& candidate, const Store::EvictionRules& rules, Bytes left,
                                                std::int64_t now) {
  if (rules.keys.contains(candidate.key)) return Store::EvictionReason::named;
  if (rules.unused_seconds && now - candidate.used_seconds >= *rules.unused_seconds) return Store::EvictionReason::unused;
  if (rules.limit && left > *rules.limit) return Store::EvictionReason::limit;
  return std::nullopt;
}

}  // namespace

Result<Store::Eviction> Store::evict(const EvictionRules& rules) {
  if (auto writable = check_writable(); !writable) return fail(std::move(writable.error()));
  const std::int64_t now = clock_->unix_seconds();
  auto all = candidates(*files_, folder_, now, rules.dry_run);
  if (!all) return fail(std::move(all.error()));
  // What leaves in any case goes first, so that the limit takes no more than it must.
  std::ranges::stable_partition(*all, [&](const Candidate& each) { return rules.keys.contains(each.key); });
  Eviction eviction;
  eviction.left_count = all->size();
  for (const Candidate& each : *all) eviction.left.count += each.allocated.count;
  for (const Candidate& each : *all) {
    const auto reason = reason_for(each, rules, eviction.left, now);
    if (!reason) break;  // the later ones were used later still
    if (each.key == rules.spared) continue;
    const auto removed = rules.dry_run ? Result<bool>(true) : files_->remove_unless_read(each.path);
    const bool gone = !removed && removed.error().code == ErrorCode::not_found;  // another process evicts too
    if (!removed && !gone) return fail(Error(removed.error()));
    if (!gone) eviction.items.push_back({each.key, each.allocated, now - each.used_seconds, *reason, !*removed});
    if (removed && !*removed) {
      ++eviction.in_use;
      continue;
    }
    eviction.left.count -= each.allocated.count;
    --eviction.left_count;
    if (gone) continue;
    if (!rules.dry_run) static_cast<void>(files_->remove(stamp_path(folder_, each.key)));
    ++eviction.entries;
    eviction.bytes.count += each.allocated.count;
  }
  return eviction;
}

Result<Store::Eviction> Store::evict_to(Bytes limit) {
  return evict({.limit = limit});
}

Result<Store::Eviction> Store::evict_unused(std::int64_t seconds) {
  return evict({.unused_seconds = seconds});
}

/// Counts what this process adds, so that a publish costs no walk through the folder; other processes' entries are seen by the next walk.
void Store::keep_within_limit(const std::string& published) {
  if (settings_.limit.count == 0) return;
  const auto status = files_->status(entry_path(folder_, published));
  const std::uint64_t added = status ? status->allocated.count : 0;
  const std::uint64_t before = estimated_.load(std::memory_order_relaxed);
  if (before != 0 && before + added <= settings_.limit.count) {
    estimated_.fetch_add(added, std::memory_order_relaxed);
    return;
  }
  // To nine tenths, so that the next publish does not walk again. The first publish only counts.
  const Bytes target = before == 0 ? settings_.limit : Bytes{settings_.limit.count / 10 * 9};
  const auto eviction = evict({.limit = target, .spared = published});
  estimated_.store(eviction ? std::max<std::uint64_t>(eviction->left.count, 1) : 0, std::memory_order_relaxed);
}

}  // namespace kernwright
