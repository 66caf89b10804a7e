// The system calls behind the POSIX file system, so that tests can make each of them fail.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "platform/file_system.hpp"

namespace kernwright {

/// Each call is the system's of that name: on failure -1, or null from opendir and readdir, and errno. Thread-safe.
class PosixCalls {
 public:
  virtual ~PosixCalls() = default;
  virtual int open(const char* path, int flags, mode_t mode);
  virtual ssize_t read(int descriptor, void* bytes, std::size_t size);
  virtual ssize_t write(int descriptor, const void* bytes, std::size_t size);
  virtual int fsync(int descriptor);
  virtual int close(int descriptor);
  virtual int rename(const char* from, const char* to);
  virtual int unlink(const char* path);
  virtual int rmdir(const char* path);
  virtual int mkdir(const char* path, mode_t mode);
  virtual int stat(const char* path, struct stat* status);
  virtual int lstat(const char* path, struct stat* status);
  virtual int fstat(int descriptor, struct stat* status);
  /// Access and modification time become now.
  virtual int utimensat(const char* path);
  /// flock(2) with LOCK_NB added.
  virtual int flock(int descriptor, int operation);
  /// fcntl(2), F_OFD_SETLK: a lock of the open file, over `size` bytes from `start`. `type`: F_WRLCK or F_UNLCK.
  virtual int lock_range(int descriptor, short type, off_t start, off_t size);
  /// fcntl(2), F_OFD_GETLK: `range` becomes a lock of others' within it, l_type F_UNLCK where there is none.
  virtual int find_lock(int descriptor, struct flock* range);
  virtual ssize_t pread(int descriptor, void* bytes, std::size_t size, off_t start);
  virtual ssize_t pwrite(int descriptor, const void* bytes, std::size_t size, off_t start);
  virtual DIR* opendir(const char* path);
  /// Null at the end as well, with errno as it was.
  virtual dirent* readdir(DIR* folder);
  virtual int closedir(DIR* folder);
};

struct LockHolder {
  std::uint32_t slot = 0;
  std::string holder;  ///< What it wrote about itself; may be empty.
};
/// Who holds locks that FileSystem::try_lock() gave, by slot; at most `most` of them. An absent file has none. Changes nothing.
Result<std::vector<LockHolder>> lock_holders(PosixCalls& calls, const std::filesystem::path& file, std::size_t most);

std::shared_ptr<FileSystem> make_posix_file_system(std::shared_ptr<PosixCalls> calls);

}  // namespace kernwright
