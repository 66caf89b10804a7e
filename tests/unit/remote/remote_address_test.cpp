#include "remote/remote_address.hpp"

#include <doctest/doctest.h>

#include "remote/remote_options.hpp"

using namespace kernwright;

namespace {

RemoteAddress parsed(std::string_view url) {
  const auto address = parse_remote_url(url);
  REQUIRE_MESSAGE(address, url << ": " << address.error().text());
  return *address;
}

bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

RemoteOptions good_options() {
  RemoteOptions options;
  options.url = "redis://cache.example";
  options.key_file = "/etc/kernwright/key";
  return options;
}

}  // namespace

TEST_CASE("remote: a URL is read into its parts") {
  RemoteAddress address = parsed("redis://cache.example");
  CHECK(address.host == "cache.example");
  CHECK(address.port == 6379);
  CHECK(address.database == 0);
  CHECK(address.socket_path.empty());
  CHECK(address.user.empty());
  CHECK(address.password.empty());
  CHECK(parsed("redis://cache.example/").database == 0);

  address = parsed("redis://10.1.2.3:7000/15");
  CHECK(address.host == "10.1.2.3");
  CHECK(address.port == 7000);
  CHECK(address.database == 15);

  address = parsed("redis://[fd00::1%eth0]:6380");
  CHECK(address.host == "fd00::1%eth0");
  CHECK(address.port == 6380);
  CHECK(address.text() == "redis://[fd00::1%eth0]:6380");
  CHECK(parsed("redis://[::1]/3").port == 6379);

  address = parsed("unix:///run/redis/redis.sock");
  CHECK(address.socket_path == "/run/redis/redis.sock");
  CHECK(address.host.empty());
  address = parsed("unix:///run/a%20b%3Fc.sock?db=7");
  CHECK(address.socket_path == "/run/a b?c.sock");
  CHECK(address.database == 7);
  CHECK(address.text() == "unix:///run/a b?c.sock?db=7");
}

TEST_CASE("remote: user and password are percent-decoded and never in the text") {
  RemoteAddress address = parsed("redis://:hunter2@cache.example:1/2");
  CHECK(address.user.empty());
  CHECK(address.password == "hunter2");
  CHECK(address.text() == "redis://cache.example:1/2");

  address = parsed("redis://fleet:p%40s%2Fs%3aw%25@cache.example");
  CHECK(address.user == "fleet");
  CHECK(address.password == "p@s/s:w%");
  CHECK(address.host == "cache.example");
  // A ':' or '@' that was left as it is belongs to the password: the host begins behind the last '@'.
  CHECK(parsed("redis://u:a:b@c@host").password == "a:b@c");
  CHECK(parsed("redis://u:a:b@c@host").host == "host");

  address = parsed("unix://:hunter2@/run/redis.sock");
  CHECK(address.password == "hunter2");
  CHECK(address.text() == "unix:///run/redis.sock");
}

TEST_CASE("remote: a URL that is none is refused, says what is wrong, and gives no password away") {
  struct Bad {
    const char* url;
    const char* reason;
  };
  const std::string long_path = "unix:///" + std::string(107, 'p') + "hunter2";
  for (const auto& [url, reason] : std::initializer_list<Bad>{
           {"", "no scheme"},
           {"cache.example:6379", "no scheme"},
           {"redis:/hunter2", "no scheme"},
           {"http://cache.example", "scheme 'http'"},
           {"HunTer2://cache.example", "unknown scheme"},
           {"rediss://:hunter2@cache.example", "TLS"},
           {"redis://", "no host"},
           {"redis://:6379", "no host"},
           {"redis://:hunter2@", "no host"},
           {"redis:///3", "no host"},
           {"redis://:hunter2", "no host"},
           {"redis://hunter2:hunter2", "a port"},
           {"redis://host:0", "a port"},
           {"redis://host:65536", "a port"},
           {"redis://host:99999999999999999999", "a port"},
           {"redis://host:", "a port"},
           {"redis://host:-1", "a port"},
           {"redis://host: 1", "a port"},
           {"redis://host/hunter2", "a database"},
           {"redis://host/-1", "a database"},
           {"redis://host/2147483648", "a database"},
           {"redis://host/1/2", "a database"},
           {"redis://host/1?ssl=hunter2", "'?' or '#'"},
           {"redis://:hunter2#x@host", "'?' or '#'"},
           {"redis://ho st", "characters in its host"},
           {"redis://hunter2/x@host", "a database"},
           {"redis://host\x01", "characters in its host"},
           {"redis://user@host", "a user without a password"},
           {"redis://user:@host", "an empty password"},
           {"redis://:hunter2%4@host", "two hex digits"},
           {"redis://:hunter2%zz@host", "two hex digits"},
           {"redis://:hunter2%00@host", "two hex digits"},
           {"redis://[::1", "without its ']'"},
           {"redis://[::1]6379", "no port"},
           {"redis://[hunter2!]", "no IPv6 address"},
           {"unix://run/hunter2.sock", "not absolute"},
           {"unix://", "0 bytes"},
           {"unix:///", "1 bytes"},
           {"unix:///run/redis.sock?database=1", "?db=database"},
           {"unix:///run/redis.sock?db=hunter2", "a database"},
           {"unix:///run/redis%0.sock", "two hex digits"},
           {long_path.c_str(), "the system takes 2 to 107"},
       }) {
    CAPTURE(url);
    const auto address = parse_remote_url(url);
    REQUIRE_FALSE(address);
    CHECK(address.error().code == ErrorCode::invalid_argument);
    CHECK_MESSAGE(holds(address.error().message, reason), address.error().message);
    CHECK(holds(address.error().message, "legal are redis://"));
    CHECK_FALSE(holds(address.error().text(), "hunter2"));
    CHECK_FALSE(holds(address.error().text(), "HunTer2"));
  }
}

TEST_CASE("remote: settings are checked one by one") {
  CHECK(check_remote_options(good_options()));
  const auto refused = [](RemoteOptions options, std::string_view reason) {
    const auto checked = check_remote_options(options);
    REQUIRE_FALSE(checked);
    CHECK(checked.error().code == ErrorCode::invalid_argument);
    CHECK_MESSAGE(holds(checked.error().message, reason), checked.error().message);
  };
  RemoteOptions options = good_options();
  options.url = "cache.example";
  refused(options, "has no scheme");
  options = good_options();
  options.key_file.clear();
  refused(options, "openssl rand -hex 32");

  for (const char* name :
       {"", "a b", "a/b", "caf\xc3\xa9", "a\r\nDEL x", "12345678901234567890123456789012345678901234567890123456789012345"}) {
    options = good_options();
    options.name_space = name;
    refused(options, "name space is '" + options.name_space.substr(0, 64));
  }
  for (const char* name : {"a", "Team-1.x_y:prod", "1234567890123456789012345678901234567890123456789012345678901234"}) {
    options = good_options();
    options.name_space = name;
    CHECK(check_remote_options(options));
  }
  options = good_options();
  options.largest_entry = {0};
  refused(options, "largest entry is 0 bytes");
  options.largest_entry = mebibytes(256);
  CHECK(check_remote_options(options));
  options.largest_entry = {(std::uint64_t{256} << 20) + 1};
  refused(options, "legal are 1 to 268435456");
  options = good_options();
  options.time_to_live_seconds = -1;
  refused(options, "time to live is -1 seconds");
  options.time_to_live_seconds = 10'000'000'000;
  refused(options, "legal are 0 (no limit)");
}
