#include "support/bundle/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace kernwright::support {
namespace {

std::string_view advice(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT: return "; free some space there, or name a file on another file system";
    case EFBIG: return "; that file system, or this process's limit, allows no larger file: pack fewer targets (--target)";
    case EROFS: return "; that file system is mounted read-only: name a file elsewhere";
    case ENOENT: return "; its folder must exist";
    case ENOTDIR: return "; something on that path is a file where a folder should be";
    case EACCES:
    case EPERM: return "; check the rights of its folder";
    default: return "";
  }
}

tl::unexpected<Error> failed(std::string_view operation, const std::filesystem::path& path, int code) {
  return fail(code == ENOENT ? ErrorCode::not_found : ErrorCode::io,
              fmt::format("cannot {} '{}': {}{}", operation, path.native(), std::generic_category().message(code), advice(code)));
}

/// The file to replace: what a link names, else the path itself.
Result<std::filesystem::path> resolved(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) return failed("stat", path, errno);
    return path;
  }
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is a {}; the name of a file is needed", path.native(),
                                                         S_ISDIR(status.st_mode) ? "folder" : "device or pipe"));
  }
  std::error_code problem;
  std::filesystem::path target = std::filesystem::canonical(path, problem);
  if (problem) return failed("resolve", path, problem.value());
  return target;
}

}  // namespace

OutputFile::OutputFile(std::filesystem::path path, std::filesystem::path temporary, std::shared_ptr<PosixCalls> calls,
                       Descriptor descriptor)
    : path_(std::move(path)), temporary_(std::move(temporary)), calls_(std::move(calls)), descriptor_(std::move(descriptor)) {}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      calls_(std::move(other.calls_)),
      descriptor_(std::move(other.descriptor_)),
      size_(other.size_) {}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) calls_->unlink(temporary_.c_str());
}

Result<OutputFile> OutputFile::create(const std::filesystem::path& path, std::shared_ptr<PosixCalls> calls) {
  auto target = resolved(path);
  if (!target) return fail(std::move(target.error()));
  constexpr int kAttempts = 16;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::uint64_t random = 0;
    if (retried([&] { return ::getrandom(&random, sizeof random, 0); }) != static_cast<ssize_t>(sizeof random)) {
      return failed("draw a temporary name for", path, errno);
    }
    std::filesystem::path temporary =
        target->parent_path() / fmt::format(".{}.{}.{:016x}.tmp", target->filename().native(), ::getpid(), random);
    Descriptor descriptor(calls, retried([&] { return calls->open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); }));
    if (descriptor.number() >= 0) return OutputFile(std::move(*target), std::move(temporary), std::move(calls), std::move(descriptor));
    if (errno != EEXIST) return failed("create", temporary, errno);
  }
  return fail(ErrorCode::io,
              fmt::format("cannot create a temporary file beside '{}': {} random names were all taken", path.native(), kAttempts));
}

Result<> OutputFile::write(std::span<const std::byte> bytes) {
  size_ = size_ + Bytes{bytes.size()};
  while (!bytes.empty()) {
    const ssize_t count = retried([&] { return calls_->write(descriptor_.number(), bytes.data(), bytes.size()); });
    if (count < 0) return failed("write", path_, errno);
    if (count == 0) return failed("write", path_, EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Result<> OutputFile::commit() {
  // Before the rename, so that after a power cut the name never stands for a file whose data was lost.
  // EINVAL: a file system that has no notion of flushing.
  if (retried([&] { return calls_->fsync(descriptor_.number()); }) != 0 && errno != EINVAL) return failed("flush", path_, errno);
  if (const int code = descriptor_.close()) return failed("close", path_, code);
  if (calls_->rename(temporary_.c_str(), path_.c_str()) != 0) return failed("rename a finished file to", path_, errno);
  temporary_.clear();
  return {};
}

}  // namespace kernwright::support
