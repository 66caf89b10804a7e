#include "remote/secret_key.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "unit/remote/remote_fixture.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

std::vector<int> bytes_of(const SecretKey& key) {
  return {key.data(), key.data() + SecretKey::kBytes};
}

std::vector<int> counting() {
  std::vector<int> bytes(32);
  for (int i = 0; i < 32; ++i) bytes[static_cast<std::size_t>(i)] = i;
  return bytes;
}

}  // namespace

TEST_CASE("remote: a secret is read as hex digits and as base64") {
  // base64 of the bytes 0 to 31, and of FB FF sixteen times in its two alphabets; from Python's base64.
  for (const char* text : {"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
                           "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F\n",
                           "  000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f \r\n",
                           "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\n"}) {
    const auto key = parse_secret_key(text);
    REQUIRE_MESSAGE(key, text);
    CHECK(bytes_of(*key) == counting());
  }
  for (const char* text : {"+//7//v/+//7//v/+//7//v/+//7//v/+//7//v/+/8=", "-__7__v_-__7__v_-__7__v_-__7__v_-__7__v_-_8="}) {
    const auto key = parse_secret_key(text);
    REQUIRE_MESSAGE(key, text);
    std::vector<int> expected;
    for (int i = 0; i < 16; ++i) expected.insert(expected.end(), {0xFB, 0xFF});
    CHECK(bytes_of(*key) == expected);
  }
}

TEST_CASE("remote: what is no secret of 32 bytes is refused and not quoted") {
  const std::string hex = kHexKey;
  for (const std::string& text :
       {std::string(), std::string("\n"), std::string("hunter2"), hex.substr(1), hex + "0", hex + hex, fmt::format("g{}", hex.substr(1)),
        hex.substr(0, 32) + " " + hex.substr(33), std::string("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg=="),
        std::string("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g"), std::string("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8= x"),
        hex + "\nhunter2", std::string(32, 'k')}) {
    CAPTURE(text);
    const auto key = parse_secret_key(text);
    REQUIRE_FALSE(key);
    CHECK(key.error().code == ErrorCode::malformed);
    CHECK(holds(key.error().message, "openssl rand -hex 32"));
    CHECK_FALSE(holds(key.error().message, "hunter2"));
    if (text.size() > 8) CHECK_FALSE(holds(key.error().message, text.substr(0, 8)));
  }
}

TEST_CASE("remote: a key file must be a private regular file") {
  const TemporaryFolder folder;
  const auto path = write_key_file(folder.path() / "key", kHexKey + "\n");
  REQUIRE(read_secret_key(path));
  CHECK(bytes_of(*read_secret_key(path)) == counting());

  const auto link = folder.path() / "link";
  std::filesystem::create_symlink(path, link);
  CHECK(read_secret_key(link));

  const auto with_mode = [&](unsigned mode) {
    write_key_file(path, kHexKey, mode);
    return read_secret_key(path);
  };
  CHECK(with_mode(0400));
  for (const unsigned mode : {0604U, 0602U, 0601U, 0644U, 0660U, 0620U, 0610U, 0777U}) {
    CAPTURE(mode);
    const auto key = with_mode(mode);
    REQUIRE_FALSE(key);
    CHECK(key.error().code == ErrorCode::invalid_argument);
    CHECK(holds(key.error().message, "chmod 600"));
    CHECK(holds(key.error().message, path.native()));
  }
  // Root's file may be read by its group, since that is how a secret is mounted for a container's user; any other's may not.
  CHECK(with_mode(0640).has_value() == (::geteuid() == 0));
  if (::geteuid() == 0) {
    with_mode(0600);
    REQUIRE(::chown(path.c_str(), 4711, 0) == 0);
    const auto foreign = read_secret_key(path);
    REQUIRE_FALSE(foreign);
    CHECK(foreign.error().code == ErrorCode::invalid_argument);
    CHECK(holds(foreign.error().message, "belongs to user 4711"));
    REQUIRE(::chown(path.c_str(), 0, 0) == 0);
  } else {
    MESSAGE("skipped: only root can give a file to another user");
  }
}

TEST_CASE("remote: a key file that cannot be read, or holds no key, is named") {
  const TemporaryFolder folder;
  const auto refused = [](const std::filesystem::path& path, ErrorCode code, std::string_view reason) {
    const auto key = read_secret_key(path);
    REQUIRE_FALSE(key);
    CHECK(key.error().code == code);
    CHECK_MESSAGE(holds(key.error().message, reason), key.error().message);
    CHECK(holds(key.error().message, path.native()));
  };
  refused(folder.path() / "none", ErrorCode::not_found, "No such file");
  refused(folder.path(), ErrorCode::invalid_argument, "no regular file");
  const auto fifo = folder.path() / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  refused(fifo, ErrorCode::invalid_argument, "no regular file");
  refused(write_key_file(folder.path() / "empty", ""), ErrorCode::malformed, "holds 0 characters");
  refused(write_key_file(folder.path() / "word", "hunter2"), ErrorCode::malformed, "holds 7 characters");
  refused(write_key_file(folder.path() / "long", kHexKey + std::string(5000, '\n') + "x"), ErrorCode::malformed, "is larger");
}
