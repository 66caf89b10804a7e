// Files that a command will write: noticed before the work where they cannot be.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

#include "kernwright/result.hpp"

namespace kernwright::tool {

/// io where the folder that the file would stand in is not there; names `option`, the folder, and what to do.
Result<> require_folder(std::string_view option, const std::filesystem::path& file);
/// The same, and io where the folder takes no file or something that is no file is in the file's place. A file that is there stays as it
/// is.
Result<> check_writable(std::string_view option, const std::filesystem::path& file);

struct OutputFile {
  std::string_view option;
  std::filesystem::path file;  ///< Empty: not asked for.
};
/// invalid_argument where two of them are one file, of which one would be lost.
Result<> require_apart(std::span<const OutputFile> files);

}  // namespace kernwright::tool
