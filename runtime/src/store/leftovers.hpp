// What killed processes left in a store.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "platform/file_system.hpp"

namespace kernwright {

/// A younger temporary file may be one that another process is still writing.
inline constexpr std::int64_t kLeftoverSeconds = 3600;

struct Leftover {
  std::filesystem::path path;  ///< Relative to the store.
  Bytes size;
  std::int64_t age_seconds = 0;
};

/// A temporary file that nobody writes any more.
bool is_leftover(std::string_view file_name, const FileSystem::Status& status, std::int64_t now);

/// Temporary files that nobody writes any more, anywhere in the store, and stamps of entries that are gone.
Result<std::vector<Leftover>> find_leftovers(FileSystem& files, const std::filesystem::path& store, std::int64_t now);

}  // namespace kernwright
