#include "output_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "platform/file_system.hpp"

namespace kernwright::tool {
namespace {

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
  if (const auto written = files->publish(probe, {}); !written) {
    return off(fmt::format("no file can be made in the folder '{}': {}", folder, written.error().message));
  }
  return files->remove(probe);
}

}  // namespace kernwright::tool
