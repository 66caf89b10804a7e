// The JSON of the cache commands. Sizes are bytes, times are seconds since the epoch.
#include <algorithm>

#include "cache_report.hpp"
#include "json_document.hpp"

namespace kernwright::tool {
namespace {

std::string_view access_text(bool writable) {
  return writable ? "writable" : "read-only";
}

Json plan_json(const Tile& tile, const Plan& plan) {
  return {{"tile", tile.text()},
          {"legal", plan.legal()},
          {"threads", plan.threads},
          {"dynamic_shared", plan.dynamic_shared},
          {"rows_per_block", plan.rows_per_block},
          {"blocks_per_sm", plan.blocks_per_sm},
          {"cluster", plan.cluster},
          {"programmatic_launch", plan.programmatic_launch},
          {"params_bytes", plan.params_bytes}};
}

Json compiler_json(const CompilerIdentity& compiler) {
  Json components = Json::object();
  for (const auto& [name, id] : compiler.components) components[name] = id;
  return {{"name", compiler.name}, {"version", compiler.version}, {"components", std::move(components)}};
}

Json entry_json(const CacheEntryReport& entry) {
  Json json{{"store", entry.store},
            {"key", entry.key},
            {"size", entry.size.count},
            {"allocated", entry.allocated.count},
            {"modified", entry.modified_seconds},
            {"used", entry.used_seconds}};
  if (entry.artifact == nullptr) {
    json["problem"] = entry.problem;
    return json;
  }
  const Artifact& artifact = *entry.artifact;
  const BuildRequest& request = artifact.request;
  json["kind"] = entry.is_plans() ? "plans" : "kernel";
  json["template"] = request.template_name;
  json["specialisation"] = request.specialisation.text();
  if (!entry.is_plans()) json["tile"] = request.tiles.front().text();
  json["target"] = request.target.name();
  json["compiler"] = compiler_json(artifact.compiler);
  json["compile_ms"] = artifact.compile_seconds * 1000;
  json["binary_size"] = entry.binary.count;
  if (!entry.is_plans()) {
    json["resources"] = resources_json(artifact.resources);
    json["threads"] = artifact.plans.front().threads;
    json["dynamic_shared"] = artifact.plans.front().dynamic_shared;
  }
  return json;
}

Json fit_json(const std::string& store, const CacheFitReport& report) {
  const Fit& fit = report.fit;
  return {{"store", store},
          {"key", report.key},
          {"template", fit.template_name},
          {"specialisation", fit.specialisation},
          {"target", fit.target},
          {"device", fit.device_name},
          {"compiler", fit.compiler},
          {"tile_asked", fit.asked.text()},
          {"tile_fitted", fit.fitted.text()},
          {"fit_reason", fit.reason}};
}

Json store_json(const CacheStoreReport& store) {
  return {{"folder", store.folder},
          {"access", access_text(store.writable)},
          {"exists", store.exists},
          {"problem", text_or_null(store.problem)},
          {"entries", store.entries.size()},
          {"bad", store.bad()},
          {"fits", store.fits.size()},
          {"size", store.size().count},
          {"limit", store.limit.count > 0 ? Json(store.limit.count) : Json(nullptr)}};
}

Json sources_json(const std::vector<SourceFile>& sources, bool contents) {
  Json json = Json::array();
  for (const SourceFile& source : sources) {
    Json each{{"name", source.name}, {"size", source.content.size()}};
    if (contents) each["content"] = source.content;
    json.push_back(std::move(each));
  }
  return json;
}

Json finding_json(const Finding& finding) {
  Json json{{"fault", to_string(finding.fault)},
            {"bad", is_bad(finding.fault)},
            {"path", finding.path.string()},
            {"key", text_or_null(finding.key)},
            {"problem", finding.problem}};
  if (finding.fault == Fault::leftover) json["age_seconds"] = finding.age_seconds;
  return json;
}

}  // namespace

std::string json_of(const CacheReport& report) {
  Json stores = Json::array();
  Json entries = Json::array();
  Json fits = Json::array();
  Json compilers = Json::array();
  std::size_t bad = 0;
  for (const CacheStoreReport& store : report.stores) {
    stores.push_back(store_json(store));
    bad += store.bad();
    for (const CacheEntryReport& entry : store.entries) entries.push_back(entry_json(entry));
    for (const CacheFitReport& fit : store.fits) fits.push_back(fit_json(store.folder, fit));
    for (const CacheCompilerReport& compiler : store.compilers) {
      Json json{{"store", store.folder}, {"record", compiler.record}};
      json.update(compiler_json(compiler.identity));
      json["entries"] = compiler.entries;
      compilers.push_back(std::move(json));
    }
  }
  return document({{"now", report.now_seconds},
                   {"bad", bad},
                   {"stores", std::move(stores)},
                   {"entries", std::move(entries)},
                   {"fits", std::move(fits)},
                   {"compilers", std::move(compilers)}});
}

std::string json_of(const CacheShowReport& report) {
  Json json = entry_json(report.entry);
  json["also_in"] = report.also_in;
  if (report.entry.artifact != nullptr) {
    const Artifact& artifact = *report.entry.artifact;
    Json plans = Json::array();
    for (std::size_t i = 0; i < artifact.plans.size(); ++i) plans.push_back(plan_json(artifact.request.tiles[i], artifact.plans[i]));
    json["entry"] = text_or_null(artifact.request.entry);
    json["options"] = artifact.request.options;
    json["plans"] = std::move(plans);
    json["sources"] = sources_json(artifact.request.sources, false);
    std::string log = artifact.log;
    std::erase(log, '\0');
    json["log"] = std::move(log);
  }
  if (!report.binary_file.empty()) json["binary_file"] = report.binary_file;
  return document(json);
}

std::string json_of(const CacheVerifyReport& report) {
  Json stores = Json::array();
  for (const CacheVerifyStoreReport& store : report.stores) {
    Json findings = Json::array();
    std::ranges::transform(store.verification.findings, std::back_inserter(findings), finding_json);
    stores.push_back({{"folder", store.folder},
                      {"access", access_text(store.writable)},
                      {"entries", store.verification.entries},
                      {"fits", store.verification.fits},
                      {"compilers", store.verification.compilers},
                      {"findings", std::move(findings)},
                      {"removed", store.removed}});
  }
  return document({{"bad", report.bad()}, {"stores", std::move(stores)}});
}

std::string json_of(const CachePruneReport& report) {
  Json entries = Json::array();
  for (const auto& [evicted, reason, name] : report.entries) {
    entries.push_back({{"key", evicted.key},
                       {"name", name},
                       {"allocated", evicted.allocated.count},
                       {"unused_seconds", evicted.unused_seconds},
                       {"reason", reason},
                       {"in_use", evicted.in_use}});
  }
  Json leftovers = Json::array();
  for (const Leftover& each : report.leftovers) {
    leftovers.push_back({{"path", each.path.string()}, {"size", each.size.count}, {"age_seconds", each.age_seconds}});
  }
  return document({{"store", report.store},
                   {"dry_run", report.dry_run},
                   {"removed", report.removed},
                   {"bytes", report.bytes.count},
                   {"in_use", report.in_use},
                   {"left", {{"entries", report.left_count}, {"bytes", report.left.count}}},
                   {"entries", std::move(entries)},
                   {"fits", report.fits},
                   {"compilers", report.compilers},
                   {"leftovers", std::move(leftovers)},
                   {"notes", report.notes},
                   {"left_alone", report.left_alone}});
}

std::string json_of(const CacheClearReport& report) {
  return document({{"store", report.store},
                   {"entries", report.cleared.entries},
                   {"fits", report.cleared.fits},
                   {"bytes", report.cleared.bytes.count},
                   {"left_alone", report.left_alone}});
}

std::string json_of_part(const std::string& key, const std::string& name, const std::string& text) {
  return document({{"key", key}, {name, text}});
}

std::string json_of_sources(const std::string& key, const std::vector<SourceFile>& sources) {
  return document({{"key", key}, {"sources", sources_json(sources, true)}});
}

}  // namespace kernwright::tool
