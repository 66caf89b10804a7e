// Files that a command will write: noticed before the work where they cannot be.
#pragma once

#include <filesystem>
#include <string_view>

#include "kernwright/result.hpp"

namespace kernwright::tool {

/// io where the folder that the file would stand in is not there; names `option`, the folder, and what to do.
Result<> require_folder(std::string_view option, const std::filesystem::path& file);
/// The same, and io where the folder takes no file or something that is no file is in the file's place. A file that is there stays as it
/// is.
Result<> check_writable(std::string_view option, const std::filesystem::path& file);

}  // namespace kernwright::tool
