#include "cache_verify_sealed.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cache_stores.hpp"
#include "core/specialised_name.hpp"
#include "json_document.hpp"
#include "text_lines.hpp"
#include "warm_requests.hpp"

namespace kernwright::tool {
namespace {

struct SealedReport {
  std::vector<std::string> stores;
  std::string list;
  WarmSummary summary;
};

Result<SealedReport> verify(const CacheOptions& cache, const VerifySealedWords& words) {
  auto stores = store_options(cache);
  if (!stores) return fail(std::move(stores.error()));
  RuntimeOptions options = std::move(*stores);
  options.sealed = true;
  if (!words.template_folder.empty()) options.template_folder = words.template_folder;
  auto runtime = Runtime::create(std::move(options));
  if (!runtime) return fail(std::move(runtime.error()));
  WarmWords selection_words;
  selection_words.output = cache.output;
  selection_words.list = words.list;
  selection_words.targets = words.targets;
  auto selection = select_requests(*runtime, selection_words);
  if (!selection) return fail(std::move(selection.error()));
  auto summary = runtime->warm_all(selection->requests);
  if (!summary) return fail(std::move(summary.error()));
  SealedReport report;
  for (const auto& folder : runtime->store_folders()) report.stores.push_back(folder.string());
  report.list = std::move(selection->description);
  report.summary = std::move(*summary);
  return report;
}

std::string text_of(const SealedReport& report) {
  std::string text;
  for (const WarmedItem& item : report.summary.items) {
    if (item.outcome != WarmOutcome::failed) continue;
    text += fmt::format("missing  {} {} {}\n         {}\n", item.target.name(), specialised_name(item.template_name, item.specialisation),
                        item.tile.variant.empty() ? "" : item.tile.text(), item.reason);
  }
  const WarmSummary& summary = report.summary;
  text +=
      fmt::format("{}\n{} and {} would hit, {} missing; {} above their target's limits\nstores: {}\n", report.list,
                  counted(summary.hit, "kernel", "kernels"), counted(summary.plans_hit, "plan table", "plan tables"),
                  counted(summary.failed, "is", "are"), counted(summary.skipped, "tile is", "tiles are"), fmt::join(report.stores, ", "));
  return text;
}

std::string json_of(const SealedReport& report) {
  Json missing = Json::array();
  for (const WarmedItem& item : report.summary.items) {
    if (item.outcome != WarmOutcome::failed) continue;
    missing.push_back({{"template", item.template_name},
                       {"specialisation", item.specialisation.text()},
                       {"target", item.target.name()},
                       {"tile", item.tile.variant.empty() ? Json(nullptr) : Json(item.tile.text())},
                       {"reason", item.reason}});
  }
  const Json json{{"stores", report.stores},           {"hit", report.summary.hit},       {"plans_hit", report.summary.plans_hit},
                  {"skipped", report.summary.skipped}, {"failed", report.summary.failed}, {"missing", std::move(missing)}};
  return document(json);
}

}  // namespace

ExitCode cache_verify_sealed(const CacheOptions& options, const VerifySealedWords& words) {
  const Result<SealedReport> report = verify(options, words);
  if (!report) return report_error(report.error());
  const bool complete = report->summary.failed == 0 && report->summary.built == 0;
  return finish(options.output.json ? json_of(*report) : text_of(*report), complete ? ExitCode::done : ExitCode::wrong);
}

}  // namespace kernwright::tool
