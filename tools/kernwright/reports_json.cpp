// The only unit that writes JSON. Fields of one meaning have one name in every document.
#include <nlohmann/json.hpp>

#include "reports.hpp"

namespace kernwright::tool {
namespace {

using Json = nlohmann::ordered_json;

/// Text from compilers and file names may be no UTF-8: what is not becomes U+FFFD. An infinity or a NaN becomes null.
std::string document(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json resources_json(const ResourceUse& use) {
  return {{"registers", use.registers},
          {"static_shared", use.static_shared.count},
          {"stack_frame", use.stack_frame.count},
          {"spill_stores", use.spill_stores.count},
          {"spill_loads", use.spill_loads.count}};
}

Json counters_json(const Counters& counters) {
  return {{"memory_hits", counters.memory_hits},   {"store_hits", counters.store_hits},           {"misses", counters.misses},
          {"compiles", counters.compiles},         {"compile_seconds", counters.compile_seconds}, {"waits", counters.waits},
          {"bad_entries", counters.bad_entries},   {"step_downs", counters.step_downs},           {"fits_read", counters.fits_read},
          {"fits_written", counters.fits_written}, {"store_warnings", counters.store_warnings},   {"launches", counters.launches}};
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

Json device_json(const DeviceInfo& device) {
  Json json{{"id", to_string(device.id)}, {"name", device.name}};
  if (device.id.backend == BackendKind::cuda) {
    json["capability"] = std::to_string(device.capability_major) + "." + std::to_string(device.capability_minor);
  }
  json["target"] = device.target.name();
  json["shared_memory_per_block"] = device.shared_memory_per_block.count;
  json["multiprocessors"] = device.multiprocessors;
  json["memory"] = device.memory.count;
  return json;
}

Json entry_json(const CacheEntryReport& entry) {
  Json json{{"key", entry.key}, {"size", entry.size.count}, {"modified", entry.modified_seconds}};
  if (!entry.problem.empty()) {
    json["problem"] = entry.problem;
    return json;
  }
  json["kind"] = entry.kind;
  json["template"] = entry.template_name;
  json["specialisation"] = entry.specialisation;
  json["tile"] = entry.tile;
  json["target"] = entry.target;
  json["compiler"] = entry.compiler;
  json["compile_ms"] = entry.compile_seconds * 1000;
  json["binary_size"] = entry.binary.count;
  json["resources"] = resources_json(entry.resources);
  return json;
}

/// null where there is nothing to say.
Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
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

std::string json_of(const CacheReport& report) {
  Json entries = Json::array();
  for (const CacheEntryReport& entry : report.entries) entries.push_back(entry_json(entry));
  Json fits = Json::array();
  for (const CacheFitReport& fit : report.fits) {
    fits.push_back({{"key", fit.key},
                    {"template", fit.template_name},
                    {"specialisation", fit.specialisation},
                    {"target", fit.target},
                    {"device", fit.device},
                    {"tile_asked", fit.tile_asked},
                    {"tile_fitted", fit.tile_fitted},
                    {"fit_reason", fit.reason}});
  }
  return document({{"store", report.store},
                   {"bad", report.bad()},
                   {"entries", std::move(entries)},
                   {"fits", std::move(fits)},
                   {"compilers", report.compilers}});
}

std::string json_of(const CacheEntryReport& entry) {
  Json json = entry_json(entry);
  if (entry.problem.empty()) {
    json["sources"] = entry.sources;
    json["log"] = entry.log;
  }
  return document(json);
}

std::string json_of(const ClearReport& report) {
  return document({{"store", report.store}, {"entries", report.entries}, {"fits", report.fits}, {"bytes", report.bytes.count}});
}

std::string json_of(const PackReport& report) {
  Json left_out = Json::array();
  for (const support::LeftOut& each : report.packed.left_out) left_out.push_back({{"name", each.name}, {"problem", each.problem}});
  const support::BundleManifest& contents = report.packed.contents;
  return document({{"store", report.store},
                   {"file", report.file},
                   {"size", report.packed.size.count},
                   {"entries", contents.entries},
                   {"fits", contents.fits},
                   {"targets", contents.targets},
                   {"compilers", compiler_lines(contents)},
                   {"left_out", std::move(left_out)}});
}

std::string json_of(const UnpackReport& report) {
  const support::Unpacked& unpacked = report.unpacked;
  const auto counts = [&](std::size_t support::MergeCount::*count) {
    return Json{{"entries", unpacked.entries.*count}, {"fits", unpacked.fits.*count}, {"compilers", unpacked.compilers.*count}};
  };
  return document({{"store", report.store},
                   {"file", report.file},
                   {"added", counts(&support::MergeCount::added)},
                   {"present", counts(&support::MergeCount::present)},
                   {"replaced", counts(&support::MergeCount::replaced)},
                   {"targets", unpacked.contents.targets},
                   {"compilers", compiler_lines(unpacked.contents)}});
}

std::string json_of(const DoctorReport& report) {
  Json devices = Json::array();
  for (const DeviceInfo& device : report.devices) devices.push_back(device_json(device));
  Json problems = Json::array();
  for (const DoctorReport::Problem& problem : report.problems) {
    problems.push_back({{"what", problem.what}, {"remedy", problem.remedy}, {"stops_a_run", problem.stops_a_run}});
  }
  const StoreDiagnosis& store = report.store;
  return document({{"version", report.version},
                   {"cuda_works", report.cuda_works},
                   {"host_works", report.host_works},
                   {"driver",
                    {{"path", text_or_null(report.driver_path)},
                     {"version", text_or_null(report.driver_version)},
                     {"problem", text_or_null(report.driver_problem)}}},
                   {"nvrtc",
                    {{"path", text_or_null(report.nvrtc_path)},
                     {"found_by", text_or_null(report.nvrtc_found_by)},
                     {"version", text_or_null(report.nvrtc_version)},
                     {"targets", report.nvrtc_targets},
                     {"problem", text_or_null(report.nvrtc_problem)},
                     {"builtins", {{"path", text_or_null(report.builtins_path)}, {"problem", text_or_null(report.builtins_problem)}}}}},
                   {"devices", std::move(devices)},
                   {"host",
                    {{"compiler", text_or_null(report.host_compiler)},
                     {"problem", text_or_null(report.host_problem)},
                     {"shared_memory_per_block", report.host.shared_memory_per_block.count},
                     {"workers", report.host.multiprocessors}}},
                   {"store",
                    {{"folder", text_or_null(store.folder)},
                     {"exists", store.exists},
                     {"writable", store.writable},
                     {"own", store.own},
                     {"owner", store.owner},
                     {"free", store.free.count},
                     {"problem", text_or_null(store.problem)}}},
                   {"problems", std::move(problems)}});
}

}  // namespace kernwright::tool
