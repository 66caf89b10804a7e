#include "backend/cuda/mapped_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace kernwright {

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const auto problem = [&path](const char* operation) {
    const int code = errno;
    return fail(code == ENOENT || code == ENOTDIR ? ErrorCode::not_found : ErrorCode::io,
                fmt::format("{}: {}: {}", path.string(), operation, std::generic_category().message(code)));
  };
  // O_NONBLOCK: a FIFO in the file's place must not hang the caller.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return problem("cannot be opened");
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) {
    const auto error = problem("cannot be examined");
    ::close(descriptor);
    return error;
  }
  if (!S_ISREG(status.st_mode) || status.st_size <= 0) {
    ::close(descriptor);
    return fail(ErrorCode::io, fmt::format("{}: is empty or not a regular file", path.string()));
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const auto error = data == MAP_FAILED ? problem("cannot be mapped") : fail(ErrorCode::io, {});
  ::close(descriptor);
  if (data == MAP_FAILED) return error;
  return MappedFile(data, size);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace kernwright
