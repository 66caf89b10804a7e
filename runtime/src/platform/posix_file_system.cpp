// FileSystem over POSIX calls.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "platform/file_system.hpp"
#include "platform/posix_calls.hpp"
#include "platform/posix_files.hpp"

namespace kernwright {
namespace {

constexpr std::uint64_t kBlockBytes = 512;  // st_blocks counts these whatever the file system's own are, stat(2)

struct CloseFolder {
  PosixCalls* calls;
  void operator()(DIR* folder) const noexcept { calls->closedir(folder); }
};

/// Removes a temporary file that was not renamed into place.
class TemporaryFile {
 public:
  TemporaryFile(PosixCalls& calls, std::string path) : calls_(calls), path_(std::move(path)) {}
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (!path_.empty()) static_cast<void>(retried([&] { return calls_.unlink(path_.c_str()); }));
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  void keep() noexcept { path_.clear(); }

 private:
  PosixCalls& calls_;
  std::string path_;
};

/// errno, 0 where everything was written.
int write_all(PosixCalls& calls, int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = retried([&] { return calls.write(descriptor, bytes.data(), bytes.size()); });
    if (written < 0) return errno;
    if (written == 0) return EIO;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

/// Creates one folder; one that is there already (also by another process at this moment) is as good.
int make_folder(PosixCalls& calls, const std::string& path, unsigned mode) {
  if (retried([&] { return calls.mkdir(path.c_str(), static_cast<mode_t>(mode)); }) == 0) return 0;
  const int code = errno;
  struct stat status {};
  if (retried([&] { return calls.stat(path.c_str(), &status); }) == 0) return S_ISDIR(status.st_mode) ? 0 : ENOTDIR;
  return code == EEXIST ? errno : code;
}

class PosixFileSystem final : public FileSystem {
 public:
  explicit PosixFileSystem(std::shared_ptr<PosixCalls> calls) : calls_(std::move(calls)) {}

  Result<std::vector<std::byte>> read(const std::filesystem::path& path, Bytes limit) override { return read_file(path, limit, false); }
  Result<std::vector<std::byte>> read_guarded(const std::filesystem::path& path, Bytes limit) override {
    return read_file(path, limit, true);
  }

  Result<bool> remove_unless_read(const std::filesystem::path& path) override {
    const Descriptor file(*calls_, retried([&] { return calls_->open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW, 0); }));
    if (file.number() < 0) return file_error("open", path, errno);
    if (retried([&] { return calls_->flock(file.number(), LOCK_EX); }) != 0 && errno == EWOULDBLOCK) return false;
    // Another one may have taken the name between the two calls; it is newer and stays.
    struct stat opened {};
    struct stat named {};
    if (retried([&] { return calls_->fstat(file.number(), &opened); }) != 0) return file_error("stat", path, errno);
    if (retried([&] { return calls_->stat(path.c_str(), &named); }) != 0) return file_error("stat", path, errno);
    if (opened.st_ino != named.st_ino || opened.st_dev != named.st_dev) return false;
    if (retried([&] { return calls_->unlink(path.c_str()); }) != 0) return file_error("remove", path, errno);
    return true;
  }

  Result<> touch(const std::filesystem::path& path) override {
    if (retried([&] { return calls_->utimensat(path.c_str()); }) == 0) return {};
    if (errno != ENOENT) return file_error("set the time of", path, errno);
    Descriptor file(*calls_, retried([&] { return calls_->open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666); }));
    if (file.number() < 0) return file_error("create", path, errno);
    return {};
  }

  Result<LockAttempt> try_lock(const std::filesystem::path& file, std::uint32_t slot, std::string_view owner) override {
    return try_lock_range(calls_, file, slot, owner);
  }

  Result<> publish(const std::filesystem::path& path, std::span<const std::byte> bytes) override {
    constexpr int kAttempts = 16;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      std::uint64_t random = 0;
      if (retried([&] { return ::getrandom(&random, sizeof random, 0); }) != static_cast<ssize_t>(sizeof random)) {
        return file_error("draw a temporary name for", path, errno);
      }
      const std::string name = fmt::format(".{}.{}.{:016x}.tmp", path.filename().native(), ::getpid(), random);
      const std::string temporary = (path.parent_path() / name).native();
      Descriptor file(*calls_, retried([&] { return calls_->open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); }));
      if (file.number() < 0) {
        if (errno == EEXIST) continue;
        return file_error("create", temporary, errno);
      }
      return fill_and_rename(path, temporary, file, bytes);
    }
    return fail(ErrorCode::io,
                fmt::format("cannot create a temporary file beside '{}': {} random names were all taken", path.native(), kAttempts));
  }

  Result<> create_folders(const std::filesystem::path& path, unsigned mode) override {
    struct stat status {};
    if (retried([&] { return calls_->stat(path.c_str(), &status); }) == 0) {
      return S_ISDIR(status.st_mode) ? Result<>{} : file_error("create the folder", path, ENOTDIR);
    }
    std::filesystem::path current;
    for (const auto& part : path) {
      current /= part;
      if (part == "/" || part.empty() || part == "." || part == "..") continue;
      if (const int code = make_folder(*calls_, current.native(), mode)) return file_error("create the folder", current, code);
    }
    return {};
  }

  Result<std::vector<std::string>> list(const std::filesystem::path& folder) override {
    const std::unique_ptr<DIR, CloseFolder> open(retried([&] { return calls_->opendir(folder.c_str()); }), CloseFolder{calls_.get()});
    if (!open) {
      if (errno == ENOENT) return std::vector<std::string>{};
      return file_error("list the folder", folder, errno);
    }
    std::vector<std::string> names;
    for (;;) {
      const dirent* const entry = retried([&] {
        errno = 0;
        return calls_->readdir(open.get());
      });
      if (entry == nullptr) {
        if (errno != 0) return file_error("list the folder", folder, errno);
        break;
      }
      const std::string_view name(static_cast<const char*>(entry->d_name));
      if (name != "." && name != "..") names.emplace_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  Result<> remove(const std::filesystem::path& path) override {
    if (retried([&] { return calls_->unlink(path.c_str()); }) == 0) return {};
    const int code = errno;
    // Linux says EISDIR for a folder, POSIX allows EPERM.
    if ((code == EISDIR || code == EPERM) && retried([&] { return calls_->rmdir(path.c_str()); }) == 0) return {};
    return file_error("remove", path, code == EISDIR ? errno : code);
  }

  Result<> rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    if (retried([&] { return calls_->rename(from.c_str(), to.c_str()); }) != 0) {
      return file_error(fmt::format("rename '{}' to", from.native()), to, errno);
    }
    return {};
  }

  Result<Status> status(const std::filesystem::path& path) override {
    struct stat status {};
    if (retried([&] { return calls_->lstat(path.c_str(), &status); }) != 0) return file_error("stat", path, errno);
    const bool link = S_ISLNK(status.st_mode);
    if (link && retried([&] { return calls_->stat(path.c_str(), &status); }) != 0) return file_error("stat", path, errno);
    return Status{.regular_file = S_ISREG(status.st_mode),
                  .folder = S_ISDIR(status.st_mode),
                  .size = {static_cast<std::uint64_t>(status.st_size)},
                  .allocated = {static_cast<std::uint64_t>(status.st_blocks) * kBlockBytes},
                  .modified_seconds = status.st_mtime,
                  .owner = status.st_uid,
                  .mode = status.st_mode & 07777U,
                  .link = link};
  }

 private:
  Result<std::vector<std::byte>> read_file(const std::filesystem::path& path, Bytes limit, bool guarded) {
    // O_NONBLOCK: opening a FIFO without a writer must not wait.
    const Descriptor file(*calls_, retried([&] { return calls_->open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0); }));
    if (file.number() < 0) return file_error("open", path, errno);
    // Closing the file ends the lock. Whether it was had is not asked: without one the worst is a miss.
    if (guarded) static_cast<void>(retried([&] { return calls_->flock(file.number(), LOCK_SH); }));
    struct stat status {};
    if (retried([&] { return calls_->fstat(file.number(), &status); }) != 0) return file_error("stat", path, errno);
    if (!S_ISREG(status.st_mode)) {
      return fail(ErrorCode::malformed,
                  fmt::format("cannot read '{}': it is {}, a regular file is needed", path.native(), kind_of(status.st_mode)));
    }
    if (static_cast<std::uint64_t>(status.st_size) > limit.count) return too_large(path, limit);
    // One byte more than the size seen, so that the end of the file shows without another call's worth of growth.
    std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size) + 1);
    std::size_t filled = 0;
    for (;;) {
      const ssize_t count = retried([&] { return calls_->read(file.number(), bytes.data() + filled, bytes.size() - filled); });
      if (count < 0) return file_error("read", path, errno);
      if (count == 0) break;
      filled += static_cast<std::size_t>(count);
      if (filled > limit.count) return too_large(path, limit);
      if (filled == bytes.size()) bytes.resize(bytes.size() * 2);
    }
    bytes.resize(filled);
    return bytes;
  }

  static tl::unexpected<Error> too_large(const std::filesystem::path& path, Bytes limit) {
    return fail(ErrorCode::malformed, fmt::format("cannot read '{}': it is larger than the limit of {} bytes", path.native(), limit.count));
  }

  Result<> fill_and_rename(const std::filesystem::path& path, const std::string& name, Descriptor& file, std::span<const std::byte> bytes) {
    TemporaryFile temporary(*calls_, name);
    if (const int code = write_all(*calls_, file.number(), bytes)) return file_error("write", path, code);
    // Before the rename, so that after a power cut the name never stands for a file whose data was lost.
    // EINVAL: a file system that has no notion of flushing.
    if (retried([&] { return calls_->fsync(file.number()); }) != 0 && errno != EINVAL) return file_error("flush", path, errno);
    if (const int code = file.close()) return file_error("close", path, code);
    if (retried([&] { return calls_->rename(temporary.path().c_str(), path.c_str()); }) != 0) {
      return file_error("rename a finished file to", path, errno);
    }
    temporary.keep();
    return {};
  }

  std::shared_ptr<PosixCalls> calls_;
};

}  // namespace

std::shared_ptr<FileSystem> make_posix_file_system(std::shared_ptr<PosixCalls> calls) {
  return std::make_shared<PosixFileSystem>(std::move(calls));
}

std::shared_ptr<FileSystem> FileSystem::posix() {
  return make_posix_file_system(std::make_shared<PosixCalls>());
}

}  // namespace kernwright
