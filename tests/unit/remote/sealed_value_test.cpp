#include "remote/sealed_value.hpp"

#include <doctest/doctest.h>
#include <sodium.h>

#include <array>

#include "unit/remote/remote_fixture.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

Deadline later() {
  return Deadline::in(std::chrono::hours(1));
}

SecretKey counting_secret() {
  return *parse_secret_key(kHexKey);
}

EntryKey golden_key() {
  EntryKey key;
  for (std::size_t i = 0; i < 16; ++i) key.bytes[i] = static_cast<std::byte>(0xA0 + i);
  return key;
}

std::vector<std::byte> bytes(std::string_view text) {
  std::vector<std::byte> result;
  for (const char c : text) result.push_back(static_cast<std::byte>(c));
  return result;
}

std::string hex(std::span<const std::byte> data) {
  std::string text;
  for (const std::byte byte : data) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[std::to_integer<unsigned>(byte) >> 4U];
    text += kDigits[std::to_integer<unsigned>(byte) & 15U];
  }
  return text;
}

ErrorCode why_refused(std::span<const std::byte> value, const EntryKey& key, const SecretKey& secret) {
  const auto opened = open_sealed(value, key, secret, later());
  REQUIRE_FALSE(opened);
  return opened.error().code;
}

}  // namespace

TEST_CASE("remote: a sealed value has the bytes that docs/cache.md says") {
  // Python: hashlib.blake2b(bytes.fromhex("894b57520d0a1a0a01000000") + bytes(range(0xA0, 0xB0)) + entry, key=bytes(range(32)),
  // digest_size=32)
  std::vector<std::byte> large(300'000);
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<std::byte>(i % 251);
  struct Golden {
    std::vector<std::byte> entry;
    const char* tag;
  };
  for (const auto& [entry, tag] : {Golden{{}, "6e21c2ad02bc640a91433833e1896106c7351317ac69390493600897a847433a"},
                                   Golden{bytes("an entry"), "de13d73b643ed821a4b969a0273a265892c416401db7b21ed7014c539b6294c3"},
                                   Golden{large, "b95914691d91ec4617828cbab26b10e083a7ffab39bdf52c87cd5f76b0185c17"}}) {
    const auto value = seal_entry(entry, golden_key(), counting_secret());
    REQUIRE(value.size() == 44 + entry.size());
    CHECK(hex(std::span(value).first(12)) == "894b57520d0a1a0a01000000");
    CHECK(hex(std::span(value).subspan(12, 32)) == tag);
    CHECK(std::vector(value.begin() + 44, value.end()) == entry);
    const auto opened = open_sealed(value, golden_key(), counting_secret(), later());
    REQUIRE(opened);
    CHECK(*opened == entry);
  }
}

TEST_CASE("remote: a value that was changed in any byte, cut or made longer is refused") {
  const SecretKey secret = counting_secret();
  const auto entry = some_bytes(600);
  const auto value = seal_entry(entry, golden_key(), secret);
  for (std::size_t i = 0; i < value.size(); ++i) {
    for (const unsigned bit : {0U, 7U}) {
      auto changed = value;
      changed[i] ^= std::byte{1} << bit;
      REQUIRE_MESSAGE(why_refused(changed, golden_key(), secret) == ErrorCode::malformed, "byte " << i);
    }
  }
  for (std::size_t size = 0; size < value.size(); ++size) {
    REQUIRE_MESSAGE(why_refused(std::span(value).first(size), golden_key(), secret) == ErrorCode::malformed, size << " bytes");
  }
  auto longer = value;
  longer.push_back(std::byte{0});
  CHECK(why_refused(longer, golden_key(), secret) == ErrorCode::malformed);
  CHECK(open_sealed(value, golden_key(), secret, later()));
}

TEST_CASE("remote: a value is good for one key and one secret") {
  const SecretKey secret = counting_secret();
  const auto value = seal_entry(some_bytes(100), golden_key(), secret);
  for (std::size_t i = 0; i < 16; ++i) {
    EntryKey other = golden_key();
    other.bytes[i] ^= std::byte{0x40};
    REQUIRE(why_refused(value, other, secret) == ErrorCode::malformed);
  }
  for (std::size_t i = 0; i < SecretKey::kBytes; ++i) {
    SecretKey other = secret;
    other.data()[i] ^= 1;
    REQUIRE(why_refused(value, golden_key(), other) == ErrorCode::malformed);
  }
  // Bytes moved over the border between key and entry are another pair.
  EntryKey shifted = golden_key();
  std::rotate(shifted.bytes.begin(), shifted.bytes.begin() + 1, shifted.bytes.end());
  CHECK(why_refused(value, shifted, secret) == ErrorCode::malformed);
}

TEST_CASE("remote: another version is refused before its authenticator is looked at") {
  // As a later version would be sealed: authentic by its own rules, so that only the version can refuse it.
  auto value = seal_entry(bytes("an entry"), golden_key(), counting_secret());
  value[8] = std::byte{2};
  const auto opened = open_sealed(value, golden_key(), counting_secret(), later());
  REQUIRE_FALSE(opened);
  CHECK(holds(opened.error().message, "another version"));
}

TEST_CASE("remote: authenticating stops at the deadline") {
  const auto value = seal_entry(some_bytes(1'000'000), golden_key(), counting_secret());
  const auto opened = open_sealed(value, golden_key(), counting_secret(), Deadline::in(std::chrono::seconds(-1)));
  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == ErrorCode::timed_out);
}
