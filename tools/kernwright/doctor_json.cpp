// The JSON of doctor.
#include "doctor_report.hpp"
#include "json_document.hpp"
#include "store/compiler_record.hpp"

namespace kernwright::tool {
namespace {

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

Json store_json(const StoreDiagnosis& store) {
  Json compilers = Json::array();
  for (const auto& each : store.by_compiler) {
    compilers.push_back({{"record", compiler_record_name(each.compiler)},
                         {"name", each.compiler.name},
                         {"version", each.compiler.version},
                         {"entries", each.entries},
                         {"present", each.present}});
  }
  Json problems = Json::array();
  for (const Problem& problem : store.problems) problems.push_back({{"what", problem.what}, {"remedy", problem.remedy}});
  return {{"folder", store.folder},
          {"access", store.read_only ? "read-only" : "writable"},
          {"exists", store.exists},
          {"link_to", text_or_null(store.link_to)},
          {"shared", store.shared},
          {"writable", store.writable},
          {"probed", store.probed},
          {"own", store.own},
          {"owner", store.owner},
          {"mode", store.mode},
          {"file_system", text_or_null(store.file_system)},
          {"free", store.free.count},
          {"free_inodes", store.free_inodes ? Json(*store.free_inodes) : Json(nullptr)},
          {"locks_work", store.locks_work ? Json(*store.locks_work) : Json(nullptr)},
          {"lock_holders", store.lock_holders},
          {"limit", store.limit.count > 0 ? Json(store.limit.count) : Json(nullptr)},
          {"used", store.used.count},
          {"entries", store.entries},
          {"bad", store.bad},
          {"fits", store.fits},
          {"targets", store.by_target},
          {"compilers", std::move(compilers)},
          {"problems", std::move(problems)}};
}

Json sealed_json(const DoctorReport& report) {
  Json starts = Json::array();
  for (const SealedStart& start : report.sealed_starts) {
    starts.push_back({{"family", start.family}, {"compilers", start.compilers}, {"problem", text_or_null(start.problem)}});
  }
  return {{"sealed", report.sealed}, {"starts", std::move(starts)}};
}

Json rows_json(const TemplateRows& rows) {
  return {{"template", rows.template_name},
          {"known", rows.known},
          {"tiles", rows.tiles},
          {"preferences", rows.preferences},
          {"here",
           {{"device", rows.holding(Closeness::device)},
            {"target", rows.holding(Closeness::target)},
            {"default", rows.holding(Closeness::any)}}},
          {"elsewhere", rows.holding(Closeness::none)},
          {"stale", rows.stale},
          {"digest", text_or_null(rows.digest)},
          {"stale_digests", rows.stale_digests},
          {"wrong", rows.wrong}};
}

Json tuning_json(const TuningDiagnosis& tuning) {
  Json tables = Json::array();
  for (const TuningDiagnosis::Table& table : tuning.tables) {
    Json templates = Json::array();
    for (const TemplateRows& rows : table.templates) templates.push_back(rows_json(rows));
    tables.push_back({{"name", table.name}, {"built_in", table.built_in}, {"templates", std::move(templates)}});
  }
  Json devices = Json::array();
  for (const auto& [device, measured] : tuning.devices) {
    devices.push_back(
        {{"id", to_string(device.id)}, {"name", device.name}, {"target", device.target.name()}, {"measured_tiles", measured}});
  }
  return {{"folder", text_or_null(tuning.folder)},
          {"named_by", text_or_null(tuning.named_by)},
          {"problem", text_or_null(tuning.failure)},
          {"tables", std::move(tables)},
          {"devices", std::move(devices)}};
}

}  // namespace

std::string json_of(const DoctorReport& report) {
  Json devices = Json::array();
  for (const DeviceInfo& device : report.devices) devices.push_back(device_json(device));
  Json problems = Json::array();
  for (const auto& [problem, stops_a_run] : report.problems) {
    problems.push_back({{"what", problem.what}, {"remedy", problem.remedy}, {"stops_a_run", stops_a_run}});
  }
  Json stores = Json::array();
  for (const StoreDiagnosis& store : report.stores) stores.push_back(store_json(store));
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
                   {"stores", std::move(stores)},
                   {"sealing", sealed_json(report)},
                   {"tuning", tuning_json(report.tuning)},
                   {"problems", std::move(problems)}});
}

}  // namespace kernwright::tool
