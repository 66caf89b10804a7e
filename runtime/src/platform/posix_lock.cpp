// Locks of byte ranges that belong to an open file (fcntl(2), "Open file description locks"): the kernel releases them when the last
// descriptor closes, however the process ends.
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <string>

#include "platform/posix_files.hpp"

namespace kernwright {
namespace {

/// errno, 0 where it was written.
int write_owner(PosixCalls& calls, int descriptor, off_t start, std::string_view owner) {
  std::array<char, kLockOwnerBytes> text{};
  owner.copy(text.data(), text.size());
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count =
        retried([&] { return calls.pwrite(descriptor, text.data() + done, text.size() - done, start + static_cast<off_t>(done)); });
    if (count <= 0) return count < 0 ? errno : EIO;
    done += static_cast<std::size_t>(count);
  }
  return 0;
}

class RangeLock final : public HeldLock {
 public:
  RangeLock(std::shared_ptr<PosixCalls> calls, int number, off_t start) : calls_(std::move(calls)), file_(*calls_, number), start_(start) {}
  RangeLock(const RangeLock&) = delete;
  RangeLock& operator=(const RangeLock&) = delete;
  ~RangeLock() override {
    // Said aloud: a child forked meanwhile has the descriptor too, and would hold the lock on.
    static_cast<void>(retried([&] { return calls_->lock_range(file_.number(), F_UNLCK, start_, kLockOwnerBytes); }));
  }
  void say(std::string_view text) noexcept override { static_cast<void>(write_owner(*calls_, file_.number(), start_, text)); }

 private:
  std::shared_ptr<PosixCalls> calls_;
  Descriptor file_;
  off_t start_;
};

/// What the holder wrote about itself, up to the padding.
std::string read_owner(PosixCalls& calls, int descriptor, off_t start) {
  std::array<char, kLockOwnerBytes> text{};
  const ssize_t count = retried([&] { return calls.pread(descriptor, text.data(), text.size(), start); });
  if (count <= 0) return {};
  std::string owner(text.data(), static_cast<std::size_t>(count));
  return owner.substr(0, owner.find('\0'));
}

/// F_OFD_GETLK answers any one of the locks in a range, so that what lies on both sides of it is asked for again.
int add_holders(PosixCalls& calls, int descriptor, off_t start, off_t end, std::size_t most, std::vector<LockHolder>& holders) {
  while (start < end && holders.size() < most) {
    struct flock range {};
    range.l_type = F_WRLCK;
    range.l_whence = SEEK_SET;
    range.l_start = start;
    range.l_len = end - start;
    if (retried([&] { return calls.find_lock(descriptor, &range); }) != 0) return errno;
    if (range.l_type == F_UNLCK) return 0;
    holders.push_back(
        {static_cast<std::uint32_t>(range.l_start / static_cast<off_t>(kLockOwnerBytes)), read_owner(calls, descriptor, range.l_start)});
    if (const int code = add_holders(calls, descriptor, start, range.l_start, most, holders)) return code;
    if (range.l_len == 0) return 0;  // up to the end of all files
    start = range.l_start + range.l_len;
  }
  return 0;
}

}  // namespace

Result<std::vector<LockHolder>> lock_holders(PosixCalls& calls, const std::filesystem::path& file, std::size_t most) {
  std::vector<LockHolder> holders;
  const Descriptor opened(calls, retried([&] { return calls.open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0); }));
  if (opened.number() < 0) {
    if (errno == ENOENT) return holders;
    return file_error("open the lock file", file, errno);
  }
  if (const int code = add_holders(calls, opened.number(), 0, std::numeric_limits<off_t>::max(), most, holders)) {
    return file_error("ask for the locks of", file, code);
  }
  std::ranges::sort(holders, {}, &LockHolder::slot);
  return holders;
}

Result<FileSystem::LockAttempt> try_lock_range(const std::shared_ptr<PosixCalls>& calls, const std::filesystem::path& file,
                                               std::uint32_t slot, std::string_view owner) {
  const int number = retried([&] { return calls->open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666); });
  if (number < 0) return file_error("open the lock file", file, errno);
  Descriptor opened(*calls, number);
  const auto start = static_cast<off_t>(slot) * static_cast<off_t>(kLockOwnerBytes);
  if (retried([&] { return calls->lock_range(number, F_WRLCK, start, kLockOwnerBytes); }) != 0) {
    // POSIX would allow EACCES as well; Linux says that only where the lock may not be had at all, and waiting for it would end at the
    // limit.
    if (errno == EAGAIN) return FileSystem::LockAttempt{nullptr, read_owner(*calls, number, start)};
    return file_error("lock", file, errno);
  }
  auto lock = std::make_unique<RangeLock>(calls, opened.release(), start);
  std::string last = read_owner(*calls, number, start);
  // Also a test of the disk: where not even this fits, those who wait would wait for an entry that cannot be written.
  if (const int code = write_owner(*calls, number, start, owner)) return file_error("write to the lock file", file, code);
  return FileSystem::LockAttempt{std::move(lock), std::move(last)};
}

}  // namespace kernwright
