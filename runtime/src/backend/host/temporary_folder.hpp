// A private folder (mode 0700) under TMPDIR, removed with all that is in it.
#pragma once

#include <filesystem>
#include <string_view>

#include "kernwright/result.hpp"

namespace kernwright::host {

class TemporaryFolder {
 public:
  static Result<TemporaryFolder> create();
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// Writes a file under a name relative to the folder, making the folders that the name has. invalid_argument where the name is absolute
  /// or steps out of the folder.
  [[nodiscard]] Result<> write(std::string_view name, std::string_view content) const;

 private:
  explicit TemporaryFolder(std::filesystem::path path) noexcept : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace kernwright::host
