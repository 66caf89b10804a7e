#include "support/bundle/input_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <system_error>

namespace kernwright::support {
namespace {

constexpr std::size_t kReadBytes = std::size_t{128} << 10;

tl::unexpected<Error> failed(std::string_view operation, const std::filesystem::path& path, int code) {
  return fail(code == ENOENT ? ErrorCode::not_found : ErrorCode::io,
              fmt::format("cannot {} '{}': {}", operation, path.native(), std::generic_category().message(code)));
}

}  // namespace

InputFile::InputFile(std::filesystem::path path, std::shared_ptr<PosixCalls> calls, Descriptor descriptor)
    : path_(std::move(path)), calls_(std::move(calls)), descriptor_(std::move(descriptor)), buffer_(kReadBytes) {}

Result<InputFile> InputFile::open(const std::filesystem::path& path, std::shared_ptr<PosixCalls> calls) {
  // O_NONBLOCK: opening a FIFO without a writer must not wait.
  Descriptor descriptor(calls, retried([&] { return calls->open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0); }));
  if (descriptor.number() < 0) return failed("open", path, errno);
  struct stat status {};
  if (::fstat(descriptor.number(), &status) != 0) return failed("stat", path, errno);
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorCode::io, fmt::format("cannot read '{}': it is a {}; a regular file is needed", path.native(),
                                           S_ISDIR(status.st_mode) ? "folder" : "device or pipe"));
  }
  return InputFile(path, std::move(calls), std::move(descriptor));
}

Result<ByteSource> InputFile::from_start() {
  if (::lseek(descriptor_.number(), 0, SEEK_SET) != 0) return failed("go back to the beginning of", path_, errno);
  return ByteSource([this] { return next(); });
}

Result<std::span<const std::byte>> InputFile::next() {
  const ssize_t count = retried([&] { return calls_->read(descriptor_.number(), buffer_.data(), buffer_.size()); });
  if (count < 0) return failed("read", path_, errno);
  return std::span<const std::byte>(buffer_).first(static_cast<std::size_t>(count));
}

}  // namespace kernwright::support
