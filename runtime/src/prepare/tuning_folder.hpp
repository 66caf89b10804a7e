// The folder of the user's tuning tables, and the tables that a runtime reads.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "kernwright/runtime.hpp"
#include "platform/file_system.hpp"
#include "platform/logger.hpp"
#include "tuning/tuning_tables.hpp"

namespace kernwright {

struct TuningFolder {
  std::filesystem::path path;
  bool from_environment = false;  ///< Then one that is off is a warning, and no error: it may be meant for another process.

  /// "KERNWRIGHT_TUNING_DIR=/tables" or "the option tuning_folder is /tables".
  [[nodiscard]] std::string text() const;
};

/// The option, else KERNWRIGHT_TUNING_DIR. Empty: there is none.
std::optional<TuningFolder> tuning_folder_of(const RuntimeOptions& options);

/// The names of the folder's tables (*.toml), sorted. Errors: not_found, invalid_argument where it is no folder, io; all begin with text().
Result<std::vector<std::string>> tuning_files(const TuningFolder& folder, FileSystem& files);

/// The user's tables, by name, and the built-in ones. Errors: those of tuning_files() for a folder that an option names; of a file that
/// cannot be read or is no right table in any.
Result<std::shared_ptr<const TuningTables>> read_tuning_tables(const std::optional<TuningFolder>& folder, FileSystem& files,
                                                               const Logger& logger);

}  // namespace kernwright
