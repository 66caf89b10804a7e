// kernwright cache ls
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cache_report.hpp"
#include "cache_stores.hpp"
#include "platform/clock.hpp"
#include "store/compiler_record.hpp"

namespace kernwright::tool {
namespace {

/// What --template and --target let through.
class Filter {
 public:
  Filter(const std::string& template_name, const std::string& target) : template_(template_name), target_(target) {}
  [[nodiscard]] bool accepts(std::string_view template_name, std::string_view target) const {
    const bool family = template_name.starts_with(template_) && template_name.substr(template_.size()).starts_with('/');
    return (template_.empty() || template_name == template_ || family) && (target_.empty() || target == target_);
  }
  /// What a bad entry is of cannot be told: it is always let through.
  [[nodiscard]] bool accepts(const CacheEntryReport& entry) const {
    return entry.artifact == nullptr || accepts(entry.artifact->request.template_name, entry.artifact->request.target.name());
  }

 private:
  const std::string& template_;
  const std::string& target_;
};

std::vector<CacheCompilerReport> compiler_reports(const std::vector<CompilerIdentity>& compilers,
                                                  const std::vector<Store::Listed>& entries) {
  std::vector<CacheCompilerReport> reports;
  for (const CompilerIdentity& compiler : compilers) {
    const auto count = std::ranges::count_if(
        entries, [&](const Store::Listed& each) { return each.artifact != nullptr && each.artifact->compiler == compiler; });
    reports.push_back({compiler_record_name(compiler), compiler, static_cast<std::size_t>(count)});
  }
  return reports;
}

Result<> read_store(Store& store, const Filter& filter, CacheStoreReport& report) {
  const auto entries = store.list();
  if (!entries) return fail(Error(entries.error()));
  for (const Store::Listed& each : *entries) {
    CacheEntryReport entry = entry_report(store, each);
    if (filter.accepts(entry)) report.entries.push_back(std::move(entry));
  }
  const auto fits = store.list_fits();
  if (!fits) return fail(Error(fits.error()));
  for (const auto& [key, fit] : *fits) {
    if (filter.accepts(fit.template_name, fit.target)) report.fits.push_back({key, fit});
  }
  const auto compilers = store.compilers();
  if (!compilers) return fail(Error(compilers.error()));
  report.compilers = compiler_reports(*compilers, *entries);
  return {};
}

Result<CacheReport> read_all(const CacheListOptions& options) {
  if (!options.target.empty()) {
    if (auto target = Target::parse(options.target); !target) {
      return fail(ErrorCode::invalid_argument, fmt::format("--target {}: {}", options.target, target.error().message));
    }
  }
  const auto stores = open_stores(options);
  if (!stores) return fail(Error(stores.error()));
  const Filter filter(options.template_name, options.target);
  CacheReport report;
  report.now_seconds = Clock::system()->unix_seconds();
  for (const auto& store : stores->all) {
    CacheStoreReport& each = report.stores.emplace_back();
    each.folder = store->folder().string();
    each.writable = store == stores->writable;
    each.limit = store->settings().limit;
    std::error_code ignored;
    each.exists = std::filesystem::exists(store->folder(), ignored);
    if (auto read = read_store(*store, filter, each); !read) each.problem = read.error().text();
  }
  return report;
}

}  // namespace

ExitCode cache_list(const CacheListOptions& options) {
  const Result<CacheReport> report = read_all(options);
  if (!report) return report_error(report.error());
  const bool all_read = std::ranges::all_of(report->stores, [](const CacheStoreReport& each) { return each.problem.empty(); });
  return finish(options.output.json ? json_of(*report) : text_of(*report), all_read ? ExitCode::done : ExitCode::unable);
}

}  // namespace kernwright::tool
