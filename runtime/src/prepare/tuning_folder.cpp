#include "prepare/tuning_folder.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>
#include <vector>

namespace kernwright {
namespace {

constexpr const char* kVariable = "KERNWRIGHT_TUNING_DIR";
constexpr Bytes kLargestTuningTable = mebibytes(1);

Result<> add_files(const TuningFolder& folder, const std::vector<std::string>& names, FileSystem& files, TuningTables& tables) {
  for (const std::string& name : names) {
    const std::string file = (folder.path / name).string();
    auto content = files.read(file, kLargestTuningTable);
    if (!content) return fail(std::move(content.error()).within(folder.text()));
    if (auto added = tables.add(as_text(*content), file, TableOwner::user); !added) {
      return fail(std::move(added.error()).within(folder.text()));
    }
  }
  return {};
}

}  // namespace

std::string TuningFolder::text() const {
  return from_environment ? fmt::format("{}={}", kVariable, path.string()) : fmt::format("the option tuning_folder is {}", path.string());
}

std::optional<TuningFolder> tuning_folder_of(const RuntimeOptions& options) {
  if (options.tuning_folder) return TuningFolder{*options.tuning_folder, false};
  const char* const value = std::getenv(kVariable);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return TuningFolder{value, true};
}

Result<std::vector<std::string>> tuning_files(const TuningFolder& folder, FileSystem& files) {
  const auto off = [&](ErrorCode code, std::string_view why) { return fail(code, fmt::format("{}: {}", folder.text(), why)); };
  const auto status = files.status(folder.path);
  if (!status && status.error().code == ErrorCode::not_found) return off(ErrorCode::not_found, "there is no such folder");
  if (!status) return off(status.error().code, status.error().message);
  if (!status->folder) return off(ErrorCode::invalid_argument, "it is no folder");
  auto names = files.list(folder.path);
  if (!names) return off(names.error().code, names.error().message);
  std::erase_if(*names, [](const std::string& name) { return !name.ends_with(".toml"); });
  return names;
}

Result<std::shared_ptr<const TuningTables>> read_tuning_tables(const std::optional<TuningFolder>& folder, FileSystem& files,
                                                               const Logger& logger) {
  constexpr std::string_view kBuiltInAlone = "the built-in tuning tables alone are used";
  auto tables = std::make_shared<TuningTables>();
  if (folder) {
    const auto names = tuning_files(*folder, files);
    if (names) {
      if (names->empty()) logger(LogLevel::info, fmt::format("{}: no file *.toml is in it: {}", folder->text(), kBuiltInAlone));
      if (auto added = add_files(*folder, *names, files, *tables); !added) return fail(std::move(added.error()));
    } else if (folder->from_environment) {
      logger(LogLevel::warn, fmt::format("{}: {}", names.error().message, kBuiltInAlone));
    } else {
      Error error = names.error();
      error.message += "; name a folder that tuning tables (*.toml) stand in, or leave the option out";
      return fail(std::move(error));
    }
  }
  for (const NamedText& table : embedded_tuning_tables()) {
    if (auto added = tables->add(table.content, table.name, TableOwner::kernwright); !added) return fail(std::move(added.error()));
  }
  return std::shared_ptr<const TuningTables>(std::move(tables));
}

}  // namespace kernwright
