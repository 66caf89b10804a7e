#include "cache.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "reports.hpp"

namespace kernwright::tool {

Result<std::unique_ptr<Store>> open_store() {
  const std::optional<std::filesystem::path> folder = default_store_folder(std::nullopt);
  if (!folder) {
    return fail(ErrorCode::unsupported, "no folder for a store: none of KERNWRIGHT_CACHE_DIR, XDG_CACHE_HOME, HOME and TMPDIR gives one");
  }
  return std::make_unique<Store>(*folder, FileSystem::posix(), Clock::system());
}

namespace {

std::string compiler_text(const CompilerIdentity& compiler) {
  std::string text = fmt::format("{} {}", compiler.name, compiler.version.substr(0, compiler.version.find('\n')));
  for (const auto& [name, value] : compiler.components) {
    if (value.size() <= 64 && value.find('\n') == std::string::npos) text += fmt::format(", {} {}", name, value);
  }
  return text;
}

CacheEntryReport entry_report(const Store::Listed& listed) {
  CacheEntryReport report;
  report.key = listed.key;
  report.size = listed.size;
  report.modified_seconds = listed.modified_seconds;
  report.problem = listed.problem;
  if (listed.artifact == nullptr) {
    if (report.problem.empty()) report.problem = "it cannot be read";
    return report;
  }
  const Artifact& artifact = *listed.artifact;
  report.kind = artifact.request.kind == ArtifactKind::plans ? "plans" : "kernel";
  report.template_name = artifact.request.template_name;
  report.specialisation = artifact.request.specialisation.text();
  std::vector<std::string> tiles;
  std::ranges::transform(artifact.request.tiles, std::back_inserter(tiles), &Tile::text);
  report.tile = fmt::format("{}", fmt::join(tiles, " "));
  report.target = artifact.request.target.name();
  report.compiler = compiler_text(artifact.compiler);
  report.resources = artifact.resources;
  report.binary = {artifact.binary.size()};
  report.compile_seconds = artifact.compile_seconds;
  std::ranges::transform(artifact.request.sources, std::back_inserter(report.sources), &SourceFile::name);
  report.log = artifact.log;
  std::erase(report.log, '\0');
  return report;
}

Result<CacheReport> read_all(Store& store) {
  CacheReport report;
  report.store = store.folder().string();
  Result<std::vector<Store::Listed>> entries = store.list();
  if (!entries) return fail(std::move(entries.error()));
  std::ranges::transform(*entries, std::back_inserter(report.entries), entry_report);
  auto fits = store.list_fits();
  if (!fits) return fail(std::move(fits.error()));
  for (const auto& [key, fit] : *fits) {
    report.fits.push_back(
        {key, fit.template_name, fit.specialisation, fit.target, fit.device_name, fit.asked.text(), fit.fitted.text(), fit.reason});
  }
  const auto compilers = store.compilers();
  if (!compilers) return fail(Error(compilers.error()));
  std::ranges::transform(*compilers, std::back_inserter(report.compilers), compiler_text);
  return report;
}

Result<CacheReport> read_all() {
  auto store = open_store();
  if (!store) return fail(std::move(store.error()));
  return read_all(**store);
}

Result<CacheEntryReport> read_one(const std::string& key) {
  auto store = open_store();
  if (!store) return fail(std::move(store.error()));
  const Result<Store::Listed> listed = (*store)->show(key);
  if (!listed) return fail(Error(listed.error()));
  return entry_report(*listed);
}

Result<ClearReport> clear() {
  auto store = open_store();
  if (!store) return fail(std::move(store.error()));
  const Result<Store::Cleared> cleared = (*store)->clear();
  if (!cleared) return fail(Error(cleared.error()));
  return ClearReport{(*store)->folder().string(), cleared->entries, cleared->fits, cleared->bytes};
}

}  // namespace

ExitCode cache_list(const OutputOptions& output) {
  const Result<CacheReport> report = read_all();
  if (!report) return report_error(report.error());
  return finish(output.json ? json_of(*report) : list_text(*report), ExitCode::done);
}

ExitCode cache_show(const OutputOptions& output, const std::string& key) {
  const Result<CacheEntryReport> entry = read_one(key);
  if (!entry) return report_error(entry.error());
  return finish(output.json ? json_of(*entry) : text_of(*entry), entry->problem.empty() ? ExitCode::done : ExitCode::wrong);
}

ExitCode cache_verify(const OutputOptions& output) {
  const Result<CacheReport> report = read_all();
  if (!report) return report_error(report.error());
  return finish(output.json ? json_of(*report) : verify_text(*report), report->bad() > 0 ? ExitCode::wrong : ExitCode::done);
}

ExitCode cache_clear(const OutputOptions& output) {
  const Result<ClearReport> report = clear();
  if (!report) return report_error(report.error());
  return finish(output.json ? json_of(*report) : text_of(*report), ExitCode::done);
}

}  // namespace kernwright::tool
