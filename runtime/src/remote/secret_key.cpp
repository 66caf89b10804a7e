#include "remote/secret_key.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "platform/file_descriptor.hpp"

namespace kernwright {
namespace {

constexpr std::string_view kHowToMake = "make one with `(umask 077; openssl rand -hex 32 > FILE)`";
constexpr std::size_t kLargestFile = 1024;

/// What was read, overwritten when it goes.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { sodium_memzero(bytes_.data(), bytes_.size()); }
  [[nodiscard]] char* data() noexcept { return bytes_.data(); }
  static constexpr std::size_t size() noexcept { return kLargestFile + 1; }

 private:
  std::array<char, kLargestFile + 1> bytes_{};
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

tl::unexpected<Error> unreadable(const std::filesystem::path& path, std::string_view step, int code) {
  return fail(code == ENOENT ? ErrorCode::not_found : ErrorCode::io,
              fmt::format("cannot {} the remote cache's key file '{}': {}", step, path.native(), std::generic_category().message(code)));
}

Result<> check_file(const std::filesystem::path& path, const struct stat& status) {
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorCode::invalid_argument, fmt::format("the remote cache's key file '{}' is no regular file", path.native()));
  }
  if (status.st_uid != 0 && status.st_uid != ::geteuid()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("the remote cache's key file '{}' belongs to user {}, who could change it; this process is user "
                            "{}: it must belong to that one or to root",
                            path.native(), status.st_uid, ::geteuid()));
  }
  const mode_t forbidden = status.st_uid == 0 ? (S_IWGRP | S_IXGRP | S_IRWXO) : (S_IRWXG | S_IRWXO);
  if ((status.st_mode & forbidden) != 0) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format(
            "the remote cache's key file '{}' has mode {:04o}, so that others than its owner can use it: chmod 600 it (and make a new "
            "key if somebody may have read it)",
            path.native(), status.st_mode & 07777U));
  }
  return {};
}

}  // namespace

SecretKey::~SecretKey() {
  sodium_memzero(bytes_.data(), bytes_.size());
}

Result<SecretKey> parse_secret_key(std::string_view text) {
  const std::string_view word = trimmed(text);
  SecretKey key;
  const auto whole = [&](std::size_t size, const char* end) { return size == SecretKey::kBytes && end == word.data() + word.size(); };
  std::size_t size = 0;
  const char* end = nullptr;
  if (word.size() == 2 * SecretKey::kBytes &&
      sodium_hex2bin(key.data(), SecretKey::kBytes, word.data(), word.size(), nullptr, &size, &end) == 0 && whole(size, end)) {
    return key;
  }
  for (const int variant : {sodium_base64_VARIANT_ORIGINAL, sodium_base64_VARIANT_ORIGINAL_NO_PADDING, sodium_base64_VARIANT_URLSAFE,
                            sodium_base64_VARIANT_URLSAFE_NO_PADDING}) {
    if (sodium_base642bin(key.data(), SecretKey::kBytes, word.data(), word.size(), nullptr, &size, &end, variant) == 0 &&
        whole(size, end)) {
      return key;
    }
  }
  return fail(ErrorCode::malformed,
              fmt::format("{} characters that are not 32 bytes as 64 hex digits or as base64; {}", word.size(), kHowToMake));
}

Result<SecretKey> read_secret_key(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) return unreadable(path, "open", errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return unreadable(path, "examine", errno);
  if (auto checked = check_file(path, status); !checked) return fail(std::move(checked.error()));

  Buffer buffer;
  std::size_t size = 0;
  while (size < Buffer::size()) {
    const ssize_t got = ::read(file.get(), buffer.data() + size, Buffer::size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return unreadable(path, "read", errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > kLargestFile) {
    return fail(ErrorCode::malformed, fmt::format("the remote cache's key file '{}' is larger than {} bytes, so it holds no key; {}",
                                                  path.native(), kLargestFile, kHowToMake));
  }
  auto key = parse_secret_key({buffer.data(), size});
  if (!key) key.error().message = fmt::format("the remote cache's key file '{}' holds {}", path.native(), key.error().message);
  return key;
}

}  // namespace kernwright
