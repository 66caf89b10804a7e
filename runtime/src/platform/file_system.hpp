// The file system as the library uses it: one seam, so that tests can make each operation fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernwright/result.hpp"
#include "kernwright/units.hpp"

namespace kernwright {

/// A lock that the kernel owns: it ends with this object, or with the process however that ends.
class HeldLock {
 public:
  HeldLock() = default;
  HeldLock(const HeldLock&) = delete;
  HeldLock& operator=(const HeldLock&) = delete;
  virtual ~HeldLock() = default;
  /// Replaces what the holder wrote about itself. It stays there after the lock is gone, for the next holder to read; whether it could be
  /// written is not asked. At most kLockOwnerBytes are kept.
  virtual void say(std::string_view text) noexcept = 0;
};

inline constexpr std::size_t kLockOwnerBytes = 128;

/// Thread-safe. Errors are `io` (`not_found` where the path does not exist), with the path, the operation and errno's text. A call that a
/// signal interrupts is made again.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// The whole of a regular file; anything else in its place (folder, FIFO, device) and more than `limit` is `malformed`, and nothing
  /// blocks on it.
  virtual Result<std::vector<std::byte>> read(const std::filesystem::path& path, Bytes limit) = 0;
  /// The same, with a shared lock on the file meanwhile, so that remove_unless_read() of any process leaves it alone. Where the file system
  /// has no locks, it reads without.
  virtual Result<std::vector<std::byte>> read_guarded(const std::filesystem::path& path, Bytes limit) = 0;
  /// Removes a regular file; false where somebody reads it just now (read_guarded), and it stays.
  virtual Result<bool> remove_unless_read(const std::filesystem::path& path) = 0;
  /// Sets the file's modification time to now; makes an empty file where there is none.
  virtual Result<> touch(const std::filesystem::path& path) = 0;

  struct LockAttempt {
    std::unique_ptr<HeldLock> lock;  ///< Null: another process or thread holds it.
    std::string holder;              ///< Then what that one wrote about itself, else what the last one did; may be empty.
  };
  /// Does not wait. One file holds any number of locks, told apart by `slot`; it is made where it is absent and never removed. `owner` is
  /// written into the slot for those who wait; at most kLockOwnerBytes of it are kept.
  virtual Result<LockAttempt> try_lock(const std::filesystem::path& file, std::uint32_t slot, std::string_view owner) = 0;
  /// Writes to a unique temporary name in the same folder, flushes, renames over `path`. On error nothing is left behind that can be
  /// removed, and `path` is as it was.
  virtual Result<> publish(const std::filesystem::path& path, std::span<const std::byte> bytes) = 0;
  /// The folder and every missing parent; one that is there already keeps its mode.
  virtual Result<> create_folders(const std::filesystem::path& path, unsigned mode) = 0;
  /// Names in the folder, sorted; an absent folder is empty.
  virtual Result<std::vector<std::string>> list(const std::filesystem::path& folder) = 0;
  /// A file, or a folder that is empty.
  virtual Result<> remove(const std::filesystem::path& path) = 0;
  virtual Result<> rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;

  struct Status {
    bool regular_file = false;
    bool folder = false;
    Bytes size;
    Bytes allocated;                    ///< The blocks that it takes on the disk.
    std::int64_t modified_seconds = 0;  ///< Since the epoch.
    std::uint32_t owner = 0;
    unsigned mode = 0;  ///< Permission bits, 07777.
    bool link = false;  ///< The name is a link; everything else here is of what it leads to.
  };
  virtual Result<Status> status(const std::filesystem::path& path) = 0;

  static std::shared_ptr<FileSystem> posix();
};

/// std::string_view over bytes and back.
inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace kernwright
