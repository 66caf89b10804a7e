#include "platform/posix_calls.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

namespace kernwright {

int PosixCalls::open(const char* path, int flags, mode_t mode) {
  return ::open(path, flags, mode);
}
ssize_t PosixCalls::read(int descriptor, void* bytes, std::size_t size) {
  return ::read(descriptor, bytes, size);
}
ssize_t PosixCalls::write(int descriptor, const void* bytes, std::size_t size) {
  return ::write(descriptor, bytes, size);
}
int PosixCalls::fsync(int descriptor) {
  return ::fsync(descriptor);
}
int PosixCalls::close(int descriptor) {
  return ::close(descriptor);
}
int PosixCalls::rename(const char* from, const char* to) {
  return std::rename(from, to);
}
int PosixCalls::unlink(const char* path) {
  return ::unlink(path);
}
int PosixCalls::rmdir(const char* path) {
  return ::rmdir(path);
}
int PosixCalls::mkdir(const char* path, mode_t mode) {
  return ::mkdir(path, mode);
}
int PosixCalls::stat(const char* path, struct stat* status) {
  return ::stat(path, status);
}
int PosixCalls::lstat(const char* path, struct stat* status) {
  return ::lstat(path, status);
}
int PosixCalls::fstat(int descriptor, struct stat* status) {
  return ::fstat(descriptor, status);
}
int PosixCalls::utimensat(const char* path) {
  return ::utimensat(AT_FDCWD, path, nullptr, 0);
}
int PosixCalls::flock(int descriptor, int operation) {
  return ::flock(descriptor, operation | LOCK_NB);
}
int PosixCalls::lock_range(int descriptor, short type, off_t start, off_t size) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = start;
  range.l_len = size;
  return ::fcntl(descriptor, F_OFD_SETLK, &range);
}
int PosixCalls::find_lock(int descriptor, struct flock* range) {
  return ::fcntl(descriptor, F_OFD_GETLK, range);
}
ssize_t PosixCalls::pread(int descriptor, void* bytes, std::size_t size, off_t start) {
  return ::pread(descriptor, bytes, size, start);
}
ssize_t PosixCalls::pwrite(int descriptor, const void* bytes, std::size_t size, off_t start) {
  return ::pwrite(descriptor, bytes, size, start);
}
DIR* PosixCalls::opendir(const char* path) {
  return ::opendir(path);
}
dirent* PosixCalls::readdir(DIR* folder) {
  return ::readdir(folder);
}
int PosixCalls::closedir(DIR* folder) {
  return ::closedir(folder);
}

}  // namespace kernwright
