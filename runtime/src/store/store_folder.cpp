#include "store/store_folder.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "store/store.hpp"

namespace kernwright {
namespace {

namespace fs = std::filesystem;

fs::path absolute_path(const fs::path& path) {
  std::error_code problem;
  fs::path full = fs::absolute(path, problem);
  return problem ? path : full.lexically_normal();
}

bool is_folder(const fs::path& path) {
  std::error_code problem;
  return fs::is_directory(path, problem);
}

/// In a folder that everybody may write to, a name could have been taken by another user to plant entries: it must be absent, or a real
/// folder of this user's that nobody else may write to or read.
bool is_private_or_absent(const fs::path& path, std::uint32_t user) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return errno == ENOENT;
  return S_ISDIR(status.st_mode) && status.st_uid == user && (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::optional<fs::path> choose_store_folder(const StoreFolderSettings& settings) {
  if (settings.setting && !settings.setting->empty()) return absolute_path(*settings.setting);
  if (!settings.cache_dir.empty()) return absolute_path(settings.cache_dir);
  // The XDG base directory specification: a path that is not absolute is to be ignored.
  if (const fs::path xdg = settings.xdg_cache_home; xdg.is_absolute()) return (xdg / "kernwright").lexically_normal();
  // Service users often have a home that does not exist; it is not made for them.
  if (const fs::path home = settings.home; home.is_absolute() && is_folder(home))
    return (home / ".cache" / "kernwright").lexically_normal();
  const fs::path temporary = settings.tmpdir.empty() ? fs::path("/tmp") : fs::path(settings.tmpdir);
  if (!temporary.is_absolute() || !is_folder(temporary)) return std::nullopt;
  const fs::path folder = (temporary / fmt::format("kernwright-{}", settings.user)).lexically_normal();
  if (!is_private_or_absent(folder, settings.user)) return std::nullopt;
  return folder;
}

std::optional<fs::path> default_store_folder(const std::optional<fs::path>& setting) {
  return choose_store_folder({.setting = setting,
                              .cache_dir = environment("KERNWRIGHT_CACHE_DIR"),
                              .xdg_cache_home = environment("XDG_CACHE_HOME"),
                              .home = environment("HOME"),
                              .tmpdir = environment("TMPDIR"),
                              .user = ::geteuid()});
}

}  // namespace kernwright
