#include "remote/redis_socket.hpp"

#include <doctest/doctest.h>

#include <csignal>

#include "platform/file_system.hpp"
#include "unit/remote/remote_fixture.hpp"
#include "unit/remote/scripted_server.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

std::vector<SocketAddress> loopback(std::uint16_t port) {
  RemoteAddress address;
  address.host = "127.0.0.1";
  address.port = port;
  return *EndpointResolver(address, {}).addresses(Deadline::in(std::chrono::seconds(0)));
}

Deadline later() {
  return Deadline::in(std::chrono::minutes(1));
}

}  // namespace

TEST_CASE("remote: a socket carries bytes both ways and sees the peer's end") {
  ScriptedServer server([](Peer& peer) {
    const auto words = peer.command();
    if (words.size() == 2) peer.write("got " + words[1]);
  });
  auto socket = RedisSocket::connect(loopback(server.port()), later());
  REQUIRE(socket);
  CHECK(socket->quiet());
  REQUIRE(socket->send(as_bytes("*2\r\n$1\r\na\r\n$3\r\nbcd\r\n"), later()));
  std::string text;
  std::vector<std::byte> bytes(4);
  for (;;) {
    const auto got = socket->receive(bytes, later());
    if (!got) {
      CHECK(got.error().code == ErrorCode::io);
      CHECK(holds(got.error().message, "closed"));
      break;
    }
    text += as_text(std::span(bytes).first(*got));
  }
  CHECK(text == "got bcd");
  CHECK_FALSE(socket->quiet());
}

TEST_CASE("remote: sending to a peer that has gone is an error and no signal") {
  struct sigaction now {};
  REQUIRE(::sigaction(SIGPIPE, nullptr, &now) == 0);
  REQUIRE((now.sa_handler == SIG_DFL));  // so that a SIGPIPE would end this program
  ScriptedServer server([](Peer&) {});
  auto socket = RedisSocket::connect(loopback(server.port()), later());
  REQUIRE(socket);
  Result<> sent;
  CHECK(eventually([&] {
    sent = socket->send(as_bytes("PING\r\n"), later());
    return !sent;
  }));
  REQUIRE_FALSE(sent);
  CHECK(sent.error().code == ErrorCode::io);
  CHECK_FALSE(socket->send(as_bytes("PING\r\n"), later()));  // and again, once the reset has come for certain
}

TEST_CASE("remote: of several addresses the first that answers is taken") {
  ScriptedServer server([](Peer& peer) { peer.wait_until_client_goes(); });
  const BlackHole silent;
  const ClosedPort closed;
  const auto closed_port = static_cast<std::uint16_t>(std::stoi(closed.url().substr(closed.url().rfind(':') + 1)));
  std::vector<SocketAddress> addresses = loopback(silent.port());
  addresses.push_back(loopback(closed_port).front());
  addresses.push_back(loopback(server.port()).front());
  CHECK(RedisSocket::connect(addresses, later()));
  CHECK(eventually([&] { return server.connections() == 1; }));

  addresses.pop_back();
  const auto none = RedisSocket::connect(addresses, Deadline::in(std::chrono::milliseconds(20)));
  REQUIRE_FALSE(none);
  CHECK(none.error().code == ErrorCode::timed_out);
  const auto refused = RedisSocket::connect(loopback(closed_port), later());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::io);
  CHECK(holds(refused.error().message, "refused"));
  CHECK_FALSE(RedisSocket::connect({}, later()));
}

TEST_CASE("remote: a peer that takes nothing holds a sender no longer than the deadline") {
  ScriptedServer server([](Peer& peer) { peer.wait_until_client_goes(); });
  auto socket = RedisSocket::connect(loopback(server.port()), later());
  REQUIRE(socket);
  const std::vector<std::byte> much(std::size_t{64} << 20);
  const auto sent = socket->send(much, Deadline::in(std::chrono::milliseconds(30)));
  REQUIRE_FALSE(sent);
  CHECK(sent.error().code == ErrorCode::timed_out);
}
