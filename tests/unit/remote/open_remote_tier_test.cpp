#include <doctest/doctest.h>

#include "unit/remote/remote_fixture.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

Result<std::shared_ptr<RemoteTier>> open(const RemoteOptions& options) {
  return open_remote_tier(options, {}, Clock::system());
}

}  // namespace

#ifdef KERNWRIGHT_TEST_REMOTE
TEST_CASE("remote: opening checks the settings and the key file and connects to nobody") {
  const TemporaryFolder folder;
  RemoteOptions options;
  options.url = "redis://:hunter2@name-that-cannot-be.invalid";
  options.key_file = write_key_file(folder.path() / "key");
  CHECK(open(options));  // the name is not even looked up

  options.key_file.clear();
  auto refused = open(options);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::invalid_argument);
  CHECK(holds(refused.error().message, "openssl rand -hex 32"));
  CHECK(holds(refused.error().message, "KERNWRIGHT_REMOTE_KEY_FILE"));

  options.key_file = folder.path() / "none";
  refused = open(options);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::not_found);
  options.key_file = write_key_file(folder.path() / "open", kHexKey, 0644);
  CHECK(open(options).error().code == ErrorCode::invalid_argument);
  options.key_file = write_key_file(folder.path() / "short", "0011");
  CHECK(open(options).error().code == ErrorCode::malformed);

  options.key_file = folder.path() / "key";
  options.url = "memcached://:hunter2@host";
  refused = open(options);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::invalid_argument);
  CHECK_FALSE(holds(refused.error().text(), "hunter2"));
}
#else
TEST_CASE("remote: a build without the remote tier says so and how to get one") {
  const TemporaryFolder folder;
  RemoteOptions options;
  options.url = "redis://cache.example";
  options.key_file = write_key_file(folder.path() / "key");
  const auto refused = open(options);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::unsupported);
  CHECK(holds(refused.error().message, "-DKERNWRIGHT_REMOTE=ON"));
}
#endif
