// kernwright cache verify
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "cache_report.hpp"
#include "cache_stores.hpp"
#include "platform/clock.hpp"
#include "prepare/runtime_state.hpp"

namespace kernwright::tool {
namespace {

/// A fit that prepare would pass over: of a template that is not there, or of a tile that it does not offer any more.
std::string why_stale(TemplateSet& templates, const Fit& fit) {
  const auto definition = templates.find(fit.template_name);
  if (!definition) return fmt::format("of the template {}, which this program does not have; it may be an engine's own", fit.template_name);
  for (const Tile* tile : {&fit.asked, &fit.fitted}) {
    if (auto offered = (*definition)->manifest.check_tile(*tile); !offered) return "not used any more: " + offered.error().message;
  }
  return {};
}

/// What only someone who knows the templates can tell.
Result<> add_stale_fits(const CacheStores& stores, Store& store, Verification& verification) {
  const auto templates = stores.runtime.state().templates();
  if (!templates) return fail(Error(templates.error()));
  const auto fits = store.list_fits();
  if (!fits) return {};  // the verification has said so
  for (const auto& [key, fit] : *fits) {
    const bool bad = std::ranges::any_of(verification.findings, [&](const Finding& each) { return each.key == key; });
    std::string why = bad ? std::string() : why_stale(**templates, fit);
    if (!why.empty())
      verification.findings.push_back({Fault::stale_fit, std::filesystem::path("fits") / (key + ".toml"), key, std::move(why)});
  }
  return {};
}

/// Removes what a finding names where it is a bad entry or record. False where it is another fault, or good by now.
Result<bool> remove(Store& store, const Finding& finding) {
  const auto removed = [](Result<> outcome) -> Result<bool> {
    if (!outcome) return fail(std::move(outcome.error()));
    return true;
  };
  if (finding.fault == Fault::bad_entry) return store.remove_bad_entry(finding.key);
  if (finding.fault == Fault::bad_fit) return removed(store.remove_fit(finding.key));
  if (finding.fault == Fault::bad_compiler) return removed(store.remove_compiler(finding.key));
  return false;
}

/// One that cannot be removed is named on stderr and stays among the findings.
void remove_bad(Store& store, CacheVerifyStoreReport& report) {
  std::vector<Finding> left;
  for (Finding& finding : report.verification.findings) {
    const auto removed = remove(store, finding);
    if (removed && *removed) {
      report.removed.push_back(finding.path.string());
      continue;
    }
    if (!removed) report_error(removed.error());
    left.push_back(std::move(finding));
  }
  report.verification.findings = std::move(left);
}

Verification only(Fault fault, std::string problem) {
  Verification verification;
  verification.findings.push_back({fault, ".", {}, std::move(problem)});
  return verification;
}

/// A store that was named and is not there is bad, since a run takes it for an empty one; a writable one is made when it is needed.
Result<Verification> verify(const CacheStores& stores, Store& store, bool writable) {
  std::error_code ignored;
  if (!writable && !std::filesystem::exists(store.folder(), ignored)) return only(Fault::unreadable, "there is no such folder");
  auto verification = verify_store(store, *stores.runtime.state().files, Clock::system()->unix_seconds());
  if (!verification) return only(Fault::unreadable, verification.error().message);
  if (auto added = add_stale_fits(stores, store, *verification); !added) return fail(std::move(added.error()));
  return verification;
}

Result<CacheVerifyReport> verify_all(const CacheVerifyOptions& options) {
  const auto stores = options.remove_bad ? open_writable_store(options) : open_stores(options);
  if (!stores) return fail(Error(stores.error()));
  CacheVerifyReport report;
  for (const auto& store : stores->all) {
    const bool writable = store == stores->writable;
    auto verification = verify(*stores, *store, writable);
    if (!verification) return fail(std::move(verification.error()));
    CacheVerifyStoreReport& each = report.stores.emplace_back();
    each = {store->folder().string(), writable, std::move(*verification), {}};
    if (options.remove_bad && writable) remove_bad(*store, each);
  }
  return report;
}

}  // namespace

ExitCode cache_verify(const CacheVerifyOptions& options) {
  const Result<CacheVerifyReport> report = verify_all(options);
  if (!report) return report_error(report.error());
  return finish(options.output.json ? json_of(*report) : text_of(*report), report->bad() > 0 ? ExitCode::wrong : ExitCode::done);
}

}  // namespace kernwright::tool
