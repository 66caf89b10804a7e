#include "output_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <system_error>
#include <vector>

#include "platform/file_system.hpp"

namespace kernwright::tool {
namespace {

constexpr std::size_t kReportBytes = std::size_t{1} << 20;  // and more than a table takes

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

}  // namespace

Result<> require_folder(std::string_view option, const std::filesystem::path& file) {
  const std::string folder = folder_of(file).string();
  const auto status = FileSystem::posix()->status(folder);
  if (status && status->folder) return {};
  const auto off = [&](const std::string& why) { return fail(ErrorCode::io, fmt::format("{} {}: {}", option, file.string(), why)); };
  if (status) return off(fmt::format("'{}' is no folder", folder));
  if (status.error().code != ErrorCode::not_found) return off(status.error().message);
  return off(fmt::format("there is no folder '{}'; make it first (mkdir -p '{}'), or name a file in one that is there", folder, folder));
}

Result<> check_writable(std::string_view option, const std::filesystem::path& file) {
  if (auto there = require_folder(option, file); !there) return there;
  const auto off = [&](const std::string& why) { return fail(ErrorCode::io, fmt::format("{} {}: {}", option, file.string(), why)); };
  const auto files = FileSystem::posix();
  if (const auto there = files->status(file); there && !there->regular_file) return off("something that is no file is there");
  const std::string folder = folder_of(file).string();
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    return off(fmt::format("no file can be made in the folder '{}': {}", folder, std::generic_category().message(errno)));
  }
  // What rights do not say: no space, no inodes.
  const std::filesystem::path probe = file.string() + ".probe";
  const std::vector<std::byte> as_much_as_a_report(kReportBytes);
  if (const auto written = files->publish(probe, as_much_as_a_report); !written) {
    return off(fmt::format("no file can be made in the folder '{}': {}", folder, written.error().message));
  }
  return files->remove(probe);
}

Result<> require_apart(std::span<const OutputFile> files) {
  std::error_code ignored;
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (files[i].file.empty() || files[j].file.empty()) continue;
      const auto place = [&](const OutputFile& of) { return std::filesystem::weakly_canonical(of.file, ignored); };
      if (place(files[i]) != place(files[j])) continue;
      return fail(ErrorCode::invalid_argument, fmt::format("{} and {} are one file, {}; legal are different ones", files[j].option,
                                                           files[i].option, files[i].file.string()));
    }
  }
  return {};
}

}  // namespace kernwright::tool
