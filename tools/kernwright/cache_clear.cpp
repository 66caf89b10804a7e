// kernwright cache clear
#include "cache_report.hpp"
#include "cache_stores.hpp"

namespace kernwright::tool {

ExitCode cache_clear(const CacheOptions& options) {
  const auto stores = open_writable_store(options);
  if (!stores) return report_error(stores.error());
  const Result<Store::Cleared> cleared = stores->writable->clear();
  if (!cleared) return report_error(cleared.error());
  const CacheClearReport report{stores->writable->folder().string(), *cleared, stores->left_alone()};
  return finish(options.output.json ? json_of(report) : text_of(report), ExitCode::done);
}

}  // namespace kernwright::tool
