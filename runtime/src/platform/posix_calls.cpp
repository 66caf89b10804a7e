#include "platform/posix_calls.hpp"

#include <fcntl.h>
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
int PosixCalls::mkdir(const char* path, mode_t mode) {
  return ::mkdir(path, mode);
}

}  // namespace kernwright
