// kernwright cache prune
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cache_report.hpp"
#include "cache_stores.hpp"
#include "core/byte_size.hpp"
#include "prepare/runtime_state.hpp"
#include "store/compiler_record.hpp"
#include "support/duration.hpp"
#include "support/format.hpp"

namespace kernwright::tool {
namespace {

constexpr const char* kLegal =
    "nothing was asked for; legal are --limit SIZE, --unused-for TIME, --target T, --other-compilers and --leftovers, one or several, each "
    "with "
    "--dry-run as well";

struct Rules {
  Store::EvictionRules eviction;
  std::map<std::string, std::string> reasons;  ///< Why each key of `eviction` leaves.
  std::map<std::string, std::string> names;    ///< What each entry is, by key.
  std::vector<std::string> fits;               ///< Keys that leave.
  std::vector<CompilerIdentity> compilers;     ///< That leave once no entry of theirs is left.
};

tl::unexpected<Error> usage_error(std::string_view option, const Error& error) {
  return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", option, error.message));
}

Result<Rules> parse(const CachePruneOptions& options) {
  Rules rules;
  rules.eviction.dry_run = options.dry_run;
  if (!options.limit.empty()) {
    auto limit = parse_byte_size(options.limit);
    if (!limit) return usage_error("--limit", limit.error());
    rules.eviction.limit = *limit;
  }
  if (!options.unused_for.empty()) {
    auto seconds = support::parse_duration(options.unused_for);
    if (!seconds) return usage_error("--unused-for", seconds.error());
    rules.eviction.unused_seconds = *seconds;
  }
  if (!options.target.empty()) {
    if (const auto target = Target::parse(options.target); !target) return usage_error("--target", target.error());
  }
  if (rules.eviction.limit || rules.eviction.unused_seconds || !options.target.empty() || options.other_compilers || options.leftovers) {
    return rules;
  }
  return fail(ErrorCode::invalid_argument, kLegal);
}

/// The compilers that are here, by kind. A kind without one is left out and noted: its entries are all that such a machine has.
std::map<std::string, CompilerIdentity> present_compilers(const Runtime& runtime, std::vector<std::string>& notes) {
  std::map<std::string, CompilerIdentity> present;
  for (const BackendKind kind : {BackendKind::cuda, BackendKind::host}) {
    Compiler& compiler = runtime.state().backend(kind)->compiler();
    const std::string family(compiler.family());
    if (auto identity = compiler.identity()) {
      present.emplace(family, std::move(*identity));
    } else {
      notes.push_back(fmt::format("--other-compilers leaves entries of the kind {} alone, since no compiler of that kind is here: {}",
                                  family, identity.error().message));
    }
  }
  return present;
}

std::string name_of(const Store::Listed& entry) {
  if (entry.artifact == nullptr) return "a bad entry";
  const BuildRequest& request = entry.artifact->request;
  const std::string tile = request.kind == ArtifactKind::plans ? "plans" : request.tiles.front().text();
  return fmt::format("{} {} {} {}", request.template_name, request.specialisation.text(), tile, request.target.name());
}

/// Names the entries that leave for their target or compiler.
Result<> choose_entries(const CacheStores& stores, const CachePruneOptions& options, Rules& rules, CachePruneReport& report) {
  const auto entries = stores.writable->list();
  if (!entries) return fail(Error(entries.error()));
  const auto present =
      options.other_compilers ? present_compilers(stores.runtime, report.notes) : std::map<std::string, CompilerIdentity>{};
  const auto is_other = [&](const CompilerIdentity& compiler) {
    const auto found = present.find(compiler.name);
    return found != present.end() && found->second != compiler;
  };
  std::size_t bad = 0;
  for (const Store::Listed& each : *entries) {
    rules.names.emplace(each.key, name_of(each));
    if (each.artifact == nullptr) {
      ++bad;
      continue;
    }
    const Artifact& artifact = *each.artifact;
    std::string reason;
    if (is_other(artifact.compiler)) reason = fmt::format("by {}", compiler_label(artifact.compiler));
    if (artifact.request.target.name() == options.target) reason = "for " + options.target;
    if (reason.empty()) continue;
    rules.eviction.keys.insert(each.key);
    rules.reasons.emplace(each.key, std::move(reason));
  }
  if (bad > 0 && (!options.target.empty() || options.other_compilers)) {
    report.notes.push_back(
        fmt::format("of {} bad entries neither target nor compiler can be told; cache verify --remove-bad removes them", bad));
  }
  const auto compilers = stores.writable->compilers();
  if (!compilers) return fail(Error(compilers.error()));
  std::ranges::copy_if(*compilers, std::back_inserter(rules.compilers), is_other);
  return {};
}

Result<> choose_fits(Store& store, const CachePruneOptions& options, Rules& rules) {
  if (options.target.empty()) return {};
  const auto fits = store.list_fits();
  if (!fits) return fail(Error(fits.error()));
  for (const auto& [key, fit] : *fits) {
    if (fit.target == options.target) rules.fits.push_back(key);
  }
  return {};
}

std::string reason_text(const Store::Evicted& evicted, const Rules& rules) {
  switch (evicted.reason) {
    case Store::EvictionReason::named: return rules.reasons.at(evicted.key);
    case Store::EvictionReason::unused: return "unused for " + support::format_age(evicted.unused_seconds);
    case Store::EvictionReason::limit: return fmt::format("limit, unused for {}", support::format_age(evicted.unused_seconds));
  }
  return {};
}

/// The records of compilers whose entries are all gone.
Result<> remove_compilers(Store& store, const Rules& rules, CachePruneReport& report) {
  std::vector<CompilerIdentity> in_use;
  for (const auto& each : report.entries) {
    if (!each.evicted.in_use) continue;
    const auto entry = store.show(each.evicted.key);
    if (entry && entry->artifact != nullptr) in_use.push_back(entry->artifact->compiler);
  }
  for (const CompilerIdentity& compiler : rules.compilers) {
    if (std::ranges::find(in_use, compiler) != in_use.end()) continue;
    if (!report.dry_run) {
      if (auto removed = store.remove_compiler(compiler_record_name(compiler)); !removed) return removed;
    }
    report.compilers.push_back(compiler_label(compiler));
  }
  return {};
}

Result<> apply(Store& store, const CachePruneOptions& options, const Rules& rules, CachePruneReport& report) {
  auto leftovers = store.remove_leftovers(options.dry_run);
  if (!leftovers) return fail(std::move(leftovers.error()));
  report.leftovers = std::move(*leftovers);
  const auto eviction = store.evict(rules.eviction);
  if (!eviction) return fail(Error(eviction.error()));
  for (const Store::Evicted& each : eviction->items) {
    const auto name = rules.names.find(each.key);
    report.entries.push_back({each, reason_text(each, rules), name != rules.names.end() ? name->second : std::string("a new entry")});
  }
  report.removed = eviction->entries;
  report.in_use = eviction->in_use;
  report.bytes = eviction->bytes;
  report.left_count = eviction->left_count;
  report.left = eviction->left;
  for (const std::string& key : rules.fits) {
    if (!options.dry_run) {
      if (auto removed = store.remove_fit(key); !removed) return removed;
    }
    report.fits.push_back(key);
  }
  return remove_compilers(store, rules, report);
}

Result<CachePruneReport> prune(const CachePruneOptions& options) {
  auto rules = parse(options);
  if (!rules) return fail(std::move(rules.error()));
  const auto stores = open_writable_store(options);
  if (!stores) return fail(Error(stores.error()));
  Store& store = *stores->writable;
  CachePruneReport report;
  report.store = store.folder().string();
  report.dry_run = options.dry_run;
  report.left_alone = stores->left_alone();
  if (auto chosen = choose_entries(*stores, options, *rules, report); !chosen) return fail(std::move(chosen.error()));
  if (auto chosen = choose_fits(store, options, *rules); !chosen) return fail(std::move(chosen.error()));
  if (auto applied = apply(store, options, *rules, report); !applied) return fail(std::move(applied.error()));
  return report;
}

}  // namespace

ExitCode cache_prune(const CachePruneOptions& options) {
  const Result<CachePruneReport> report = prune(options);
  if (!report) return report_error(report.error());
  return finish(options.output.json ? json_of(*report) : text_of(*report), ExitCode::done);
}

}  // namespace kernwright::tool
