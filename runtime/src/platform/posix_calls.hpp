// The system calls behind the POSIX file system, so that tests can make each of them fail.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>

#include "platform/file_system.hpp"

namespace kernwright {

/// Each call is the system's of that name: -1 and errno on failure. Thread-safe.
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
  virtual int mkdir(const char* path, mode_t mode);
};

std::shared_ptr<FileSystem> make_posix_file_system(std::shared_ptr<PosixCalls> calls);

}  // namespace kernwright
