// The secret that a fleet shares: who has it can store entries that the fleet loads.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <string_view>

#include "kernwright/result.hpp"

namespace kernwright {

/// 32 bytes, overwritten when it goes.
class SecretKey {
 public:
  static constexpr std::size_t kBytes = 32;
  SecretKey() = default;
  SecretKey(const SecretKey&) = default;
  SecretKey& operator=(const SecretKey&) = default;
  ~SecretKey();

  [[nodiscard]] const unsigned char* data() const noexcept { return bytes_.data(); }
  [[nodiscard]] unsigned char* data() noexcept { return bytes_.data(); }

 private:
  std::array<unsigned char, kBytes> bytes_{};
};

/// 64 hex digits, or base64 with or without its padding; white space before and after is ignored. malformed, without a byte of it,
/// otherwise.
Result<SecretKey> parse_secret_key(std::string_view text);

/// Reads a key file. It must be a regular file (links are followed) that others than its owner can neither read nor write; where root owns
/// it, its group may read it, as secrets that are mounted into a container are. invalid_argument where it is not, io or not_found where it
/// cannot be read, malformed where it holds no key. Nothing waits on a FIFO in its place.
Result<SecretKey> read_secret_key(const std::filesystem::path& path);

}  // namespace kernwright
