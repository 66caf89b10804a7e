#include "prepare/store_stack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "key/key.hpp"
#include "store/compiler_record.hpp"
#include "store/entry_format.hpp"

namespace kernwright {
namespace {

/// The numbers that a version begins with, so that 13.0 is above 12.9. Other text counts as none.
std::vector<int> version_numbers(std::string_view version) {
  std::vector<int> numbers;
  for (;;) {
    int number = 0;
    const auto [end, problem] = std::from_chars(version.data(), version.data() + version.size(), number);
    if (problem != std::errc{}) return numbers;
    numbers.push_back(number);
    version.remove_prefix(static_cast<std::size_t>(end - version.data()));
    if (!version.starts_with('.')) return numbers;
    version.remove_prefix(1);
  }
}

}  // namespace

StoreStack::StoreStack(Settings settings, std::shared_ptr<Clock> clock, std::shared_ptr<LiveCounters> counters, Logger logger)
    : stores_(std::move(settings.read_only)),
      writable_(std::move(settings.writable)),
      remote_(std::move(settings.remote)),
      lock_wait_limit_seconds_(settings.lock_wait_limit_seconds),
      clock_(std::move(clock)),
      counters_(std::move(counters)),
      logger_(std::move(logger)) {
  if (writable_) stores_.push_back(writable_);
}

std::optional<StoreStack::Found> StoreStack::find(const BuildRequest& request, std::span<const CompilerIdentity> compilers) {
  for (const CompilerIdentity& compiler : compilers) {
    if (auto found = find_in_stores(entry_key(request, compiler), request, compiler)) return found;
  }
  if (!remote_) return std::nullopt;
  for (const CompilerIdentity& compiler : compilers) {
    if (auto found = find_remotely(entry_key(request, compiler), request, compiler)) return found;
  }
  return std::nullopt;
}

std::optional<StoreStack::Found> StoreStack::find_in_stores(const EntryKey& key, const BuildRequest& request,
                                                            const CompilerIdentity& compiler) {
  for (const auto& store : stores_) {
    Store::Lookup lookup = store->read(key, request, compiler);
    if (lookup.outcome == Store::Outcome::hit) return hit(*store, std::move(lookup));
    if (lookup.outcome != Store::Outcome::bad) continue;
    count(counters_->bad_entries);
    if (lookup.unreadable) {
      say_once(*store, fmt::format("the store {} cannot be read; going on without it: {}", store->folder().string(), lookup.problem));
      continue;
    }
    const bool replaced = store == writable_;
    logger_(LogLevel::warn, fmt::format("entry {} of {} is bad and is {}: {}", key.hex(), store->folder().string(),
                                        replaced ? "built anew" : "passed over", lookup.problem));
  }
  return std::nullopt;
}

std::optional<StoreStack::Found> StoreStack::find_remotely(const EntryKey& key, const BuildRequest& request,
                                                           const CompilerIdentity& compiler) {
  RemoteTier::Fetched fetched = remote_->fetch(key);
  switch (fetched.outcome) {
    case RemoteTier::Fetched::Outcome::miss: return std::nullopt;
    case RemoteTier::Fetched::Outcome::bad: count(counters_->remote_bad); return std::nullopt;  // the tier has said why
    case RemoteTier::Fetched::Outcome::unavailable: count(counters_->remote_unavailable); return std::nullopt;
    case RemoteTier::Fetched::Outcome::hit: break;
  }
  // Authentic says who stored it; that it is this entry is checked as for any file.
  auto artifact = decode_entry_for(fetched.entry, {key, request, compiler});
  if (!artifact) {
    count(counters_->remote_bad);
    logger_(LogLevel::warn, fmt::format("entry {} of the remote cache is bad and is built anew: {}", key.hex(), artifact.error().message));
    return std::nullopt;
  }
  count(counters_->remote_hits);
  keep(key, compiler, fetched.entry);
  return Found{std::make_shared<const Artifact>(std::move(*artifact)), CacheSource::remote};
}

std::optional<StoreStack::Found> StoreStack::find_new(const BuildRequest& request, const CompilerIdentity& compiler) {
  if (!writable_) return std::nullopt;
  Store::Lookup lookup = writable_->read(entry_key(request, compiler), request, compiler);
  if (lookup.outcome != Store::Outcome::hit) return std::nullopt;
  return hit(*writable_, std::move(lookup));
}

StoreStack::Found StoreStack::hit(const Store& store, Store::Lookup lookup) {
  count(counters_->store_hits);
  count(*counters_->hits_of(store.folder().string()));
  return Found{std::move(lookup.artifact), CacheSource::store};
}

void StoreStack::say_once(const Store& store, const std::string& text) {
  LogLevel level = LogLevel::debug;
  {
    const std::lock_guard lock(said_mutex_);
    if (said_.insert(&store).second) level = LogLevel::warn;
  }
  logger_(level, text);
}

void StoreStack::trouble(const std::string& problem) {
  troubled_ = true;
  // What was compiled is in memory, so nothing is lost but the next process's time.
  say_once(*writable_,
           fmt::format("the store {} does not work as it should; going on from memory: {}", writable_->folder().string(), problem));
}

bool StoreStack::keep(const EntryKey& key, const CompilerIdentity& compiler, std::span<const std::byte> entry) {
  if (!writable_) return false;
  auto published = writable_->publish_entry(key, compiler, entry);
  if (published) return true;
  count(counters_->store_warnings);
  trouble(published.error().text());
  return false;
}

bool StoreStack::publish(const Artifact& artifact) {
  if (!writable_ && !remote_) return false;
  auto entry = encode_entry(artifact);
  if (!entry) {
    count(counters_->store_warnings);
    logger_(LogLevel::warn, fmt::format("entry {} cannot be stored: {}", artifact.key.hex(), entry.error().text()));
    return false;
  }
  const auto bytes = std::make_shared<const std::vector<std::byte>>(std::move(*entry));
  const bool kept = keep(artifact.key, artifact.compiler, *bytes);
  if (remote_) remote_->store(artifact.key, bytes);
  return kept;
}

void StoreStack::flush_remote(double limit_seconds) {
  if (remote_) remote_->flush(limit_seconds);
}

BuildLock StoreStack::lock(const EntryKey& key, const std::string& what) {
  if (!writable_ || troubled_.load()) return {};
  BuildLock lock = lock_build(*writable_, key, what, lock_wait_limit_seconds_, *clock_, logger_);
  if (lock.waited) count(counters_->lock_waits);
  if (lock.problem.empty()) return lock;
  count(counters_->lock_failures);
  trouble("compiling without a lock: " + lock.problem);
  return lock;
}

std::optional<Fit> StoreStack::read_fit(const FitKey& key) {
  for (const auto& store : stores_) {
    std::string problem;
    bool unreadable = false;
    auto fit = store->read_fit(key, &problem, &unreadable);
    if (unreadable) {
      say_once(*store, fmt::format("the store {} cannot be read; going on without it: {}", store->folder().string(), problem));
    } else if (!problem.empty()) {
      logger_(LogLevel::warn, fmt::format("fit {} of {} is ignored: {}", key.hex(), store->folder().string(), problem));
    }
    if (fit) return fit;
  }
  return std::nullopt;
}

bool StoreStack::publish_fit(const FitKey& key, const Fit& fit) {
  if (!writable_) return false;
  auto published = writable_->publish_fit(key, fit);
  if (published) return true;
  count(counters_->store_warnings);
  trouble("a fit could not be written, so the next process steps down again: " + published.error().text());
  return false;
}

std::vector<CompilerIdentity> StoreStack::compilers(std::string_view family) {
  std::vector<CompilerIdentity> all;
  for (const auto& store : stores_) {
    auto listed = store->compilers();
    if (!listed) {
      say_once(*store, fmt::format("the compilers of {} cannot be read: {}", store->folder().string(), listed.error().text()));
      continue;
    }
    for (CompilerIdentity& compiler : *listed) {
      if (compiler.name == family && std::ranges::find(all, compiler) == all.end()) all.push_back(std::move(compiler));
    }
  }
  std::ranges::sort(all, [](const CompilerIdentity& a, const CompilerIdentity& b) {
    const auto left = version_numbers(a.version);
    const auto right = version_numbers(b.version);
    return left != right ? left > right : compiler_record_name(a) < compiler_record_name(b);
  });
  return all;
}

std::vector<std::filesystem::path> StoreStack::folders() const {
  std::vector<std::filesystem::path> all;
  for (const auto& store : stores_) all.push_back(store->folder());
  return all;
}

}  // namespace kernwright
