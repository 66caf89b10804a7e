// Where the writable store is, by the rules of docs/cache.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace kernwright {

/// What the rules look at, so that tests need not change their own process's environment.
struct StoreFolderSettings {
  std::optional<std::filesystem::path> setting;  ///< RuntimeOptions::store
  std::string cache_dir;                         ///< KERNWRIGHT_CACHE_DIR
  std::string xdg_cache_home;
  std::string home;
  std::string tmpdir;
  std::uint32_t user = 0;  ///< Effective user id.
};

/// nullopt: memory only. Creates nothing.
std::optional<std::filesystem::path> choose_store_folder(const StoreFolderSettings& settings);

}  // namespace kernwright
