// The JSON of run and warm.
#include "json_document.hpp"
#include "reports.hpp"

namespace kernwright::tool {
namespace {

Json counters_json(const Counters& counters) {
  return {{"memory_hits", counters.memory_hits},
          {"store_hits", counters.store_hits},
          {"hits_by_store", counters.hits_by_store},
          {"remote_hits", counters.remote_hits},
          {"remote_bad", counters.remote_bad},
          {"remote_unavailable", counters.remote_unavailable},
          {"misses", counters.misses},
          {"sealed_misses", counters.sealed_misses},
          {"compiles", counters.compiles},
          {"compile_seconds", counters.compile_seconds},
          {"waits", counters.waits},
          {"lock_waits", counters.lock_waits},
          {"lock_failures", counters.lock_failures},
          {"bad_entries", counters.bad_entries},
          {"step_downs", counters.step_downs},
          {"fits_read", counters.fits_read},
          {"fits_written", counters.fits_written},
          {"store_warnings", counters.store_warnings},
          {"launches", counters.launches}};
}

Json launch_json(const LaunchReport& launch) {
  return {{"template", launch.prepared.template_name},
          {"specialisation", launch.prepared.specialisation.text()},
          {"tile_asked", launch.prepared.tile_asked.text()},
          {"tile_fitted", launch.prepared.tile_fitted.text()},
          {"fit_reason", launch.prepared.fit_reason},
          {"fit_recorded", launch.prepared.fit_recorded},
          {"cache", to_string(launch.prepared.cache)},
          {"key", launch.prepared.key},
          {"compile_ms", launch.prepared.compile_ms},
          {"resources", resources_json(launch.prepared.resources)},
          {"grid", {launch.grid.x, launch.grid.y, launch.grid.z}},
          {"threads", launch.threads},
          {"dynamic_shared", launch.dynamic_shared},
          {"median_ms", launch.median_ms}};
}

Json row_json(const support::SparseMlaCheck::Row& row) {
  if (row.token < 0) return nullptr;
  return {{"token", row.token}, {"head", row.head}};
}

Json check_json(const RunReport& report) {
  if (!report.check) return nullptr;
  const support::SparseMlaCheck& check = *report.check;
  return {{"worst_row_cosine", check.worst_row_cosine},
          {"worst_row_rel_l2", check.worst_row_rel_l2},
          {"bound_violations", check.bound_violations},
          {"lse_max_abs", check.lse_max_abs},
          {"passed", check.passed},
          {"worst_bound_ratio", check.worst_bound_ratio},
          {"tokens", report.checked_tokens},
          {"rows", check.rows},
          {"worst_row_cosine_at", row_json(check.worst_row_cosine_at)},
          {"worst_row_rel_l2_at", row_json(check.worst_row_rel_l2_at)},
          {"worst_bound_at", row_json(check.worst_bound_at)},
          {"lse_worst_at", row_json(check.lse_worst_at)},
          {"first_failure", check.first_failure}};
}

Json recorded_json(const std::optional<RecordedComparison>& recorded) {
  if (!recorded) return nullptr;
  return {{"passed", recorded->passed()},
          {"same_kernel", recorded->same_kernel},
          {"difference", text_or_null(recorded->difference)},
          {"bit_identical", recorded->differing == 0},
          {"elements", recorded->elements},
          {"differing", recorded->differing},
          {"largest_difference", recorded->largest_difference},
          {"first", text_or_null(recorded->first)},
          {"recorded_failure", text_or_null(recorded->recorded_failure)}};
}

}  // namespace

std::string json_of(const RunReport& report) {
  Json launches = Json::array();
  for (const LaunchReport& launch : report.launches) launches.push_back(launch_json(launch));
  const Json json{{"device", report.device.name},
                  {"target", report.device.target.name()},
                  {"input", report.input},
                  {"tokens", report.tokens},
                  {"heads", report.heads},
                  {"kv_rows", report.kv_rows},
                  {"topk", report.topk},
                  {"d_qk", report.d_qk},
                  {"union_asked", report.union_asked ? Json(*report.union_asked) : Json("auto")},
                  {"union_used", report.union_used},
                  {"union_reason", report.union_reason},
                  {"deterministic", report.deterministic},
                  {"workspace_bytes", report.workspace.count},
                  {"launches", std::move(launches)},
                  {"total_ms", report.total_ms},
                  {"repetitions", report.repetitions},
                  {"check", check_json(report)},
                  {"recorded", recorded_json(report.recorded)},
                  {"output", text_or_null(report.output)},
                  {"counters", counters_json(report.counters)}};
  return document(json);
}

std::string json_of(const WarmReport& report) {
  const WarmSummary& summary = report.summary;
  Json items = Json::array();
  for (const WarmedItem& item : summary.items) {
    Json json{{"template", item.template_name},
              {"specialisation", item.specialisation.text()},
              {"target", item.target.name()},
              {"tile", item.tile.variant.empty() ? "" : item.tile.text()},
              {"key", item.key},
              {"status", to_string(item.outcome)}};
    if (!item.reason.empty()) json["detail"] = item.reason;
    json["compile_ms"] = item.compile_ms;
    json["resources"] = resources_json(item.resources);
    items.push_back(std::move(json));
  }
  return document({{"store", report.store},
                   {"list", report.list},
                   {"built", summary.built},
                   {"hit", summary.hit},
                   {"failed", summary.failed},
                   {"skipped", summary.skipped},
                   {"plans", {{"built", summary.plans_built}, {"hit", summary.plans_hit}}},
                   {"interrupted", report.signal != 0},
                   {"not_begun", summary.not_begun},
                   {"not_stored", summary.not_stored},
                   {"jobs", summary.jobs},
                   {"jobs_reason", report.jobs_reason},
                   {"seconds", summary.seconds},
                   {"cpu_seconds", report.cpu_seconds},
                   {"busy", report.busy()},
                   {"items", std::move(items)}});
}

}  // namespace kernwright::tool
