#include "platform/posix_files.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <system_error>

namespace kernwright {
namespace {

std::string_view advice(int code) {
  switch (code) {
    case ENOSPC: return "; free some space on that file system, or name another folder in KERNWRIGHT_CACHE_DIR";
    case EDQUOT: return "; the user's disk quota is used up: free some space, or name another folder in KERNWRIGHT_CACHE_DIR";
    case EROFS: return "; that file system is mounted read-only: name a writable folder in KERNWRIGHT_CACHE_DIR";
    case EACCES:
    case EPERM: return "; check the owner and the permissions of the folders on that path";
    case EMFILE:
    case ENFILE: return "; too many files are open: raise the limit (ulimit -n)";
    case ENOTDIR: return "; something on that path is a file where a folder should be: move it away";
    default: return "";
  }
}

}  // namespace

tl::unexpected<Error> file_error(std::string_view operation, const std::filesystem::path& path, int code) {
  return fail(code == ENOENT ? ErrorCode::not_found : ErrorCode::io,
              fmt::format("cannot {} '{}': {}{}", operation, path.native(), std::generic_category().message(code), advice(code)));
}

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "not a regular file";
}

}  // namespace kernwright
