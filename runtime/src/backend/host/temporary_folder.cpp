#include "backend/host/temporary_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "platform/file_descriptor.hpp"
#include "platform/file_system.hpp"
#include "platform/write_all.hpp"

namespace kernwright::host {

Result<TemporaryFolder> TemporaryFolder::create() {
  const char* const setting = std::getenv("TMPDIR");
  std::filesystem::path parent = setting != nullptr && *setting != '\0' ? setting : "/tmp";
  std::error_code relative;
  parent = std::filesystem::absolute(parent, relative);  // the compiler runs inside the folder
  std::string name = (parent / "kernwright-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    return fail(ErrorCode::io, fmt::format("cannot make a folder for the compiler in {}: {}; set TMPDIR to a folder that can be written to",
                                           parent.string(), std::strerror(errno)));
  }
  return TemporaryFolder(std::filesystem::path(name));
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::move(other.path_)) {
  other.path_.clear();
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Result<> TemporaryFolder::write(std::string_view name, std::string_view content) const {
  const std::filesystem::path relative(name);
  const bool leaves = std::any_of(relative.begin(), relative.end(), [](const auto& part) { return part == ".."; });
  if (name.empty() || relative.is_absolute() || leaves || !relative.has_filename()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("source name \"{}\": a relative path without \"..\" is needed, such as \"my_engine/scale.cu\"", name));
  }
  const std::filesystem::path path = path_ / relative;
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) return fail(ErrorCode::io, fmt::format("cannot make the folder of {}: {}", path.string(), error.message()));
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return fail(ErrorCode::io, fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
  if (write_all(file.get(), as_bytes(content))) return {};
  return fail(ErrorCode::io, fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
}

}  // namespace kernwright::host
