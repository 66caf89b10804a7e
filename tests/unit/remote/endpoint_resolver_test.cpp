#include "remote/endpoint_resolver.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <cstring>
#include <future>
#include <stdexcept>

#include "unit/remote/remote_fixture.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

SocketAddress ipv4(const char* text, std::uint16_t port) {
  sockaddr_in plain{};
  plain.sin_family = AF_INET;
  plain.sin_port = htons(port);
  ::inet_pton(AF_INET, text, &plain.sin_addr);
  SocketAddress address;
  std::memcpy(&address.storage, &plain, sizeof(plain));
  address.length = sizeof(plain);
  return address;
}

std::string text_of(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.storage.ss_family == AF_INET) {
    sockaddr_in plain{};
    std::memcpy(&plain, &address.storage, sizeof(plain));
    ::inet_ntop(AF_INET, &plain.sin_addr, text, sizeof(text));
    return std::string(text) + " " + std::to_string(ntohs(plain.sin_port));
  }
  sockaddr_in6 plain{};
  std::memcpy(&plain, &address.storage, sizeof(plain));
  ::inet_ntop(AF_INET6, &plain.sin6_addr, text, sizeof(text));
  return std::string(text) + " " + std::to_string(ntohs(plain.sin6_port));
}

RemoteAddress tcp(std::string host) {
  RemoteAddress address;
  address.host = std::move(host);
  address.port = 6379;
  return address;
}

Deadline later() {
  return Deadline::in(std::chrono::minutes(1));
}

/// Already over: what has not been answered counts as late.
Deadline now() {
  return Deadline::in(std::chrono::seconds(0));
}

const NameLookup kNobody = [](const std::string&, std::uint16_t) -> Result<std::vector<SocketAddress>> {
  throw std::logic_error("a look-up that nothing should ask for");
};

}  // namespace

TEST_CASE("remote: a socket's path and a numeric address need no look-up") {
  EndpointResolver four(tcp("127.0.0.2"), kNobody);
  auto addresses = four.addresses(now());
  REQUIRE(addresses);
  REQUIRE(addresses->size() == 1);
  CHECK(text_of(addresses->front()) == "127.0.0.2 6379");
  EndpointResolver six(tcp("fd00::1"), kNobody);
  addresses = six.addresses(now());
  REQUIRE(addresses);
  CHECK(text_of(addresses->front()) == "fd00::1 6379");

  RemoteAddress file;
  file.socket_path = "/run/redis.sock";
  EndpointResolver path(file, kNobody);
  addresses = path.addresses(now());
  REQUIRE(addresses);
  sockaddr_un plain{};
  std::memcpy(&plain, &addresses->front().storage, sizeof(plain));
  CHECK(plain.sun_family == AF_UNIX);
  CHECK(std::string(plain.sun_path) == "/run/redis.sock");
}

TEST_CASE("remote: a name is looked up once and anew after forget") {
  std::atomic<int> asked = 0;
  EndpointResolver resolver(tcp("cache.example"), [&](const std::string& host, std::uint16_t port) -> Result<std::vector<SocketAddress>> {
    CHECK(host == "cache.example");
    return std::vector{ipv4(++asked == 1 ? "10.0.0.1" : "10.0.0.2", port)};
  });
  for (int i = 0; i < 3; ++i) {
    const auto addresses = resolver.addresses(later());
    REQUIRE(addresses);
    CHECK(text_of(addresses->front()) == "10.0.0.1 6379");
  }
  CHECK(asked == 1);
  resolver.forget();
  CHECK(text_of(resolver.addresses(later())->front()) == "10.0.0.2 6379");
  CHECK(asked == 2);
}

TEST_CASE("remote: a look-up that takes long is waited for no longer than the deadline, and its late answer is used") {
  std::promise<void> go;
  const std::shared_future<void> gone = go.get_future().share();
  const auto asked = std::make_shared<std::atomic<int>>(0);
  const auto answered = std::make_shared<std::atomic<bool>>(false);
  {
    EndpointResolver resolver(tcp("cache.example"), [=](const std::string&, std::uint16_t port) -> Result<std::vector<SocketAddress>> {
      ++*asked;
      gone.wait();
      *answered = true;
      return std::vector{ipv4("10.0.0.1", port)};
    });
    for (int i = 0; i < 3; ++i) {
      const auto late = resolver.addresses(now());
      REQUIRE_FALSE(late);
      CHECK(late.error().code == ErrorCode::timed_out);
      CHECK(holds(late.error().message, "cache.example"));
    }
    CHECK(eventually([&] { return *asked == 1; }));
    go.set_value();
    const auto addresses = resolver.addresses(later());
    REQUIRE(addresses);
    CHECK(text_of(addresses->front()) == "10.0.0.1 6379");
    CHECK(*asked == 1);
  }
  CHECK(*answered);
}

TEST_CASE("remote: a resolver goes while its look-up is still under way") {
  std::promise<void> go;
  const auto asked = std::make_shared<std::atomic<int>>(0);
  {
    EndpointResolver resolver(
        tcp("cache.example"),
        [asked, gone = go.get_future().share()](const std::string&, std::uint16_t port) -> Result<std::vector<SocketAddress>> {
          ++*asked;
          gone.wait();
          ++*asked;
          return std::vector{ipv4("10.0.0.1", port)};
        });
    CHECK_FALSE(resolver.addresses(now()));
    CHECK(eventually([&] { return *asked == 1; }));
  }
  CHECK(*asked == 1);  // it was not waited for
  go.set_value();
  CHECK(eventually([&] { return *asked == 2; }));
}

TEST_CASE("remote: a look-up that fails says why and is tried again") {
  std::atomic<int> asked = 0;
  EndpointResolver resolver(tcp("cache.example"), [&](const std::string&, std::uint16_t port) -> Result<std::vector<SocketAddress>> {
    if (++asked == 1) return fail(ErrorCode::not_found, "no such name");
    if (asked == 2) throw std::runtime_error("thrown");
    return std::vector{ipv4("10.0.0.1", port)};
  });
  CHECK(resolver.addresses(later()).error().message == "no such name");
  CHECK(resolver.addresses(later()).error().message == "thrown");
  CHECK(resolver.addresses(later()));
}

TEST_CASE("remote: the system's look-up knows localhost and refuses a name that cannot be") {
  const auto known = system_name_lookup()("localhost", 6379);
  REQUIRE(known);
  REQUIRE_FALSE(known->empty());
  const std::string text = text_of(known->front());
  CHECK((text == "127.0.0.1 6379" || text == "::1 6379"));
  const auto unknown = system_name_lookup()("name-that-cannot-be.invalid", 6379);
  REQUIRE_FALSE(unknown);
  CHECK(holds(unknown.error().message, "name-that-cannot-be.invalid"));
}
