#include "remote/sealed_value.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <array>

namespace kernwright {
namespace {

constexpr std::size_t kMagicBytes = 8;
constexpr std::size_t kPrefixBytes = 12;  // magic, version
constexpr std::size_t kTagBytes = 32;
static_assert(kPrefixBytes + kTagBytes == kSealBytes);
static_assert(SecretKey::kBytes == crypto_generichash_KEYBYTES && kTagBytes == crypto_generichash_BYTES);

using Prefix = std::array<unsigned char, kPrefixBytes>;
using Tag = std::array<unsigned char, kTagBytes>;
constexpr Prefix kPrefix{0x89, 'K', 'W', 'R', '\r', '\n', 0x1A, '\n', kSealVersion, 0, 0, 0};

const unsigned char* raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

/// Keyed BLAKE2b over prefix, key and entry. The first two have one length each, so no two triples give the same bytes. False where the
/// deadline passed on the way.
bool authenticate(std::span<const std::byte> entry, const EntryKey& key, const SecretKey& secret, const Deadline* deadline, Tag& tag) {
  // Small enough that a look at the clock comes every tenth of a millisecond or so, large enough that looking costs nothing.
  constexpr std::size_t kPiece = std::size_t{128} << 10;
  crypto_generichash_state state{};
  crypto_generichash_init(&state, secret.data(), SecretKey::kBytes, tag.size());
  crypto_generichash_update(&state, kPrefix.data(), kPrefix.size());
  crypto_generichash_update(&state, raw(key.bytes), key.bytes.size());
  while (!entry.empty()) {
    if (deadline != nullptr && deadline->passed()) return false;
    const auto piece = entry.first(std::min(entry.size(), kPiece));
    crypto_generichash_update(&state, raw(piece), piece.size());
    entry = entry.subspan(piece.size());
  }
  crypto_generichash_final(&state, tag.data(), tag.size());
  return true;
}

}  // namespace

std::vector<std::byte> seal_entry(std::span<const std::byte> entry, const EntryKey& key, const SecretKey& secret) {
  Tag tag{};
  authenticate(entry, key, secret, nullptr, tag);
  std::vector<std::byte> value;
  value.reserve(kSealBytes + entry.size());
  for (const unsigned char byte : kPrefix) value.push_back(std::byte{byte});
  for (const unsigned char byte : tag) value.push_back(std::byte{byte});
  value.insert(value.end(), entry.begin(), entry.end());
  return value;
}

Result<std::vector<std::byte>> open_sealed(std::span<const std::byte> value, const EntryKey& key, const SecretKey& secret,
                                           Deadline deadline) {
  if (value.size() < kSealBytes) {
    return fail(ErrorCode::malformed, fmt::format("a value of {} bytes, fewer than its header's {}", value.size(), kSealBytes));
  }
  const unsigned char* const bytes = raw(value);
  if (!std::equal(kPrefix.begin(), kPrefix.begin() + kMagicBytes, bytes)) {
    return fail(ErrorCode::malformed, "a value that does not begin as Kernwright's do");
  }
  if (!std::equal(kPrefix.begin() + kMagicBytes, kPrefix.end(), bytes + kMagicBytes)) {
    return fail(ErrorCode::malformed, fmt::format("a value of another version than {}", kSealVersion));
  }
  const auto entry = value.subspan(kSealBytes);
  Tag tag{};
  if (!authenticate(entry, key, secret, &deadline, tag)) return fail(ErrorCode::timed_out, "no time was left to authenticate the value");
  if (sodium_memcmp(tag.data(), bytes + kPrefixBytes, tag.size()) != 0) {
    return fail(ErrorCode::malformed,
                "a value that is not authentic for this key: changed, cut, copied from another key, or stored with another secret");
  }
  return std::vector<std::byte>(entry.begin(), entry.end());
}

}  // namespace kernwright
