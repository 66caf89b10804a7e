// What the operating system tells of the file system under a folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "kernwright/units.hpp"

namespace kernwright::tool {

struct FileSystemFacts {
  std::string type;                          ///< "ext4", "xfs", "nfs", …, or its magic number.
  Bytes free;                                ///< What this user may still write.
  std::optional<std::uint64_t> free_inodes;  ///< Empty where the file system makes them as they are needed.
};

/// nullopt where the folder is not there or the system does not tell.
std::optional<FileSystemFacts> file_system_facts(const std::filesystem::path& folder);

/// The name for a magic number of statfs(2); "type 0x…" for one that is not known.
std::string file_system_name(std::uint64_t magic);

}  // namespace kernwright::tool
