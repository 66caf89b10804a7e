// FileSystem over POSIX calls.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
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

namespace kernwright {
namespace {

/// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor(PosixCalls& calls, int number) noexcept : calls_(calls), number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }

  [[nodiscard]] int number() const noexcept { return number_; }
  /// errno of close, 0 where it succeeded. EINTR counts as closed: on Linux the descriptor is gone either way.
  int close() noexcept {
    if (number_ < 0) return 0;
    const int outcome = calls_.close(std::exchange(number_, -1));
    return outcome == 0 || errno == EINTR ? 0 : errno;
  }

 private:
  PosixCalls& calls_;
  int number_;
};

struct CloseFolder {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};

/// Removes a temporary file that was not renamed into place.
class TemporaryFile {
 public:
  TemporaryFile(PosixCalls& calls, std::string path) : calls_(calls), path_(std::move(path)) {}
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (!path_.empty()) calls_.unlink(path_.c_str());
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  void keep() noexcept { path_.clear(); }

 private:
  PosixCalls& calls_;
  std::string path_;
};

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

tl::unexpected<Error> failed(std::string_view operation, const std::filesystem::path& path, int code) {
  return fail(code == ENOENT ? ErrorCode::not_found : ErrorCode::io,
              fmt::format("cannot {} '{}': {}{}", operation, path.native(), std::generic_category().message(code), advice(code)));
}

template <class Call>
auto retried(Call call) {
  auto outcome = call();
  while (outcome < 0 && errno == EINTR) outcome = call();
  return outcome;
}

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

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "not a regular file";
}

/// Creates one folder; one that is there already (also by another process at this moment) is as good.
int make_folder(PosixCalls& calls, const std::string& path, unsigned mode) {
  if (calls.mkdir(path.c_str(), static_cast<mode_t>(mode)) == 0) return 0;
  const int code = errno;
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return S_ISDIR(status.st_mode) ? 0 : ENOTDIR;
  return code;
}

class PosixFileSystem final : public FileSystem {
 public:
  explicit PosixFileSystem(std::shared_ptr<PosixCalls> calls) : calls_(std::move(calls)) {}

  Result<std::vector<std::byte>> read(const std::filesystem::path& path, Bytes limit) override {
    // O_NONBLOCK: opening a FIFO without a writer must not wait.
    const Descriptor file(*calls_, retried([&] { return calls_->open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0); }));
    if (file.number() < 0) return failed("open", path, errno);
    struct stat status {};
    if (::fstat(file.number(), &status) != 0) return failed("stat", path, errno);
    if (!S_ISREG(status.st_mode)) {
      return fail(ErrorCode::io,
                  fmt::format("cannot read '{}': it is {}, a regular file is needed", path.native(), kind_of(status.st_mode)));
    }
    if (static_cast<std::uint64_t>(status.st_size) > limit.count) return too_large(path, limit);
    // One byte more than the size seen, so that the end of the file shows without another call's worth of growth.
    std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size) + 1);
    std::size_t filled = 0;
    for (;;) {
      const ssize_t count = retried([&] { return calls_->read(file.number(), bytes.data() + filled, bytes.size() - filled); });
      if (count < 0) return failed("read", path, errno);
      if (count == 0) break;
      filled += static_cast<std::size_t>(count);
      if (filled > limit.count) return too_large(path, limit);
      if (filled == bytes.size()) bytes.resize(bytes.size() * 2);
    }
    bytes.resize(filled);
    return bytes;
  }

  Result<> publish(const std::filesystem::path& path, std::span<const std::byte> bytes) override {
    constexpr int kAttempts = 16;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      std::uint64_t random = 0;
      if (retried([&] { return ::getrandom(&random, sizeof random, 0); }) != static_cast<ssize_t>(sizeof random)) {
        return failed("draw a temporary name for", path, errno);
      }
      const std::string name = fmt::format(".{}.{}.{:016x}.tmp", path.filename().native(), ::getpid(), random);
      const std::string temporary = (path.parent_path() / name).native();
      Descriptor file(*calls_, retried([&] { return calls_->open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); }));
      if (file.number() < 0) {
        if (errno == EEXIST) continue;
        return failed("create", temporary, errno);
      }
      return fill_and_rename(path, temporary, file, bytes);
    }
    return fail(ErrorCode::io,
                fmt::format("cannot create a temporary file beside '{}': {} random names were all taken", path.native(), kAttempts));
  }

  Result<> create_folders(const std::filesystem::path& path, unsigned mode) override {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0) return S_ISDIR(status.st_mode) ? Result<>{} : failed("create the folder", path, ENOTDIR);
    std::filesystem::path current;
    for (const auto& part : path) {
      current /= part;
      if (part == "/" || part.empty() || part == "." || part == "..") continue;
      if (const int code = make_folder(*calls_, current.native(), mode)) return failed("create the folder", current, code);
    }
    return {};
  }

  Result<std::vector<std::string>> list(const std::filesystem::path& folder) override {
    const std::unique_ptr<DIR, CloseFolder> open(::opendir(folder.c_str()));
    if (!open) {
      if (errno == ENOENT) return std::vector<std::string>{};
      return failed("list the folder", folder, errno);
    }
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(open.get());
      if (entry == nullptr) {
        if (errno != 0) return failed("list the folder", folder, errno);
        break;
      }
      const std::string_view name(static_cast<const char*>(entry->d_name));
      if (name != "." && name != "..") names.emplace_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  Result<> remove(const std::filesystem::path& path) override {
    if (std::remove(path.c_str()) != 0) return failed("remove", path, errno);
    return {};
  }

  Result<> rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    if (calls_->rename(from.c_str(), to.c_str()) != 0) return failed(fmt::format("rename '{}' to", from.native()), to, errno);
    return {};
  }

  Result<Status> status(const std::filesystem::path& path) override {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return failed("stat", path, errno);
    return Status{.regular_file = S_ISREG(status.st_mode),
                  .folder = S_ISDIR(status.st_mode),
                  .size = {static_cast<std::uint64_t>(status.st_size)},
                  .modified_seconds = status.st_mtime,
                  .owner = status.st_uid};
  }

 private:
  static tl::unexpected<Error> too_large(const std::filesystem::path& path, Bytes limit) {
    return fail(ErrorCode::io, fmt::format("cannot read '{}': it is larger than the limit of {} bytes", path.native(), limit.count));
  }

  Result<> fill_and_rename(const std::filesystem::path& path, const std::string& name, Descriptor& file, std::span<const std::byte> bytes) {
    TemporaryFile temporary(*calls_, name);
    if (const int code = write_all(*calls_, file.number(), bytes)) return failed("write", path, code);
    // Before the rename, so that after a power cut the name never stands for a file whose data was lost.
    // EINVAL: a file system that has no notion of flushing.
    if (retried([&] { return calls_->fsync(file.number()); }) != 0 && errno != EINVAL) return failed("flush", path, errno);
    if (const int code = file.close()) return failed("close", path, code);
    if (calls_->rename(temporary.path().c_str(), path.c_str()) != 0) return failed("rename a finished file to", path, errno);
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
