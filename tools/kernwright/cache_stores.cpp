#include "cache_stores.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "prepare/runtime_state.hpp"

namespace kernwright::tool {
namespace {

constexpr const char* kNoFolder = "no folder for a store: none of KERNWRIGHT_CACHE_DIR, XDG_CACHE_HOME, HOME and TMPDIR gives one";

}  // namespace

Result<RuntimeOptions> store_options(const CacheOptions& options) {
  RuntimeOptions runtime = runtime_options(options.output);
  if (options.store.empty()) return runtime;
  std::error_code problem;
  const auto status = std::filesystem::status(options.store, problem);
  if (!std::filesystem::is_directory(status)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--store {}: {}; a store's folder is needed", options.store,
                            status.type() == std::filesystem::file_type::not_found ? "there is nothing of that name"
                            : problem                                              ? problem.message()
                                                                                   : "it is no folder"));
  }
  runtime.store = options.store;
  runtime.read_only_stores.emplace();
  return runtime;
}

std::vector<std::string> CacheStores::left_alone() const {
  std::vector<std::string> folders;
  for (const auto& store : all) {
    if (store != writable) folders.push_back(store->folder().string());
  }
  return folders;
}

Result<CacheStores> open_stores(const CacheOptions& options) {
  auto asked = store_options(options);
  if (!asked) return fail(std::move(asked.error()));
  Result<Runtime> runtime = Runtime::create(std::move(*asked));
  if (!runtime) return fail(std::move(runtime.error()));
  const StoreStack& stack = *runtime->state().stores;
  if (stack.empty()) return fail(ErrorCode::unsupported, kNoFolder);
  return CacheStores{*runtime, stack.all(), stack.writable()};
}

Result<CacheStores> open_writable_store(const CacheOptions& options) {
  auto stores = open_stores(options);
  if (stores && stores->writable == nullptr) return fail(ErrorCode::unsupported, kNoFolder);
  return stores;
}

}  // namespace kernwright::tool
