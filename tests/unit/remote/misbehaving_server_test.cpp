// Servers that are dead, hung, silent, dripping or lying: what a process loses to each.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <map>

#include "remote/endpoint_resolver.hpp"
#include "remote/link_tier.hpp"
#include "remote/redis_connection.hpp"
#include "remote/sealed_value.hpp"
#include "unit/remote/opened_tier.hpp"
#include "unit/remote/scripted_server.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

using Outcome = RemoteTier::Fetched::Outcome;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Asks a fresh tier for 300 keys: no hit, no miss, one opening of the breaker, and 250 ms in all. The machine may be loaded, so time alone
/// is given more than one try; a server that could stretch it would stretch it every time.
void loses_little_to(const std::string& name, const std::string& url) {
  CAPTURE(name);
  constexpr double kMost = 0.25;
  double lost = 1;
  for (int attempt = 0; attempt < 5 && lost > kMost; ++attempt) {
    const OpenedTier opened(url, Patience::as_in_production);
    std::map<Outcome, int> outcomes;
    lost = seconds_of([&] {
      for (unsigned i = 0; i < 300; ++i) ++outcomes[opened.tier->fetch(numbered_key(i)).outcome];
    });
    CHECK(outcomes[Outcome::hit] == 0);
    CHECK(outcomes[Outcome::miss] == 0);
    const auto counted = opened.tier->statistics();
    CHECK(counted.breaker_openings == 1);
    CHECK(counted.bad + counted.unavailable == 300);
    CHECK(counted.bad <= 3);
    CHECK(opened.log.count("is not asked for 30 s") == 1);
  }
  MESSAGE(name << ": " << lost * 1000 << " ms lost over 300 keys");
  CHECK(lost <= kMost);
}

/// Answers every command with the same bytes.
ScriptedServer::Serve always(std::string answer) {
  return [answer = std::move(answer)](Peer& peer) {
    while (!peer.command().empty()) {
      if (!peer.write(answer)) return;
    }
  };
}

/// What the first three fetches answer; there are no more attempts.
void is_answered(const std::string& name, const std::string& url, Outcome expected) {
  CAPTURE(name);
  const OpenedTier opened(url);
  for (unsigned i = 0; i < 10; ++i) {
    const auto fetched = opened.tier->fetch(numbered_key(i));
    CHECK(fetched.outcome == (i < 3 ? expected : Outcome::unavailable));
    CHECK(fetched.entry.empty());
    CHECK_FALSE(fetched.problem.empty());
  }
}

}  // namespace

TEST_CASE("remote: a dead server costs a process next to nothing") {
  const ClosedPort closed;
  loses_little_to("connection refused", closed.url());
  loses_little_to("no socket there", "unix:///nowhere/redis.sock");
}

TEST_CASE("remote: a server whose packets are swallowed is given up") {
  const BlackHole hole;
  loses_little_to("no answer to a connection", hole.url());
}

TEST_CASE("remote: connecting has its own limit inside a call's") {
  // Were the call's deadline the only one, the answer would come after a minute.
  const BlackHole hole;
  const RemoteAddress address = *parse_remote_url(hole.url());
  const auto never = [](const std::string&, std::uint16_t) -> Result<std::vector<SocketAddress>> {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    return fail(ErrorCode::not_found, "no such name");
  };
  const RemoteAddress named = *parse_remote_url("redis://cache.example");
  for (const RemoteAddress& tried : {address, named}) {
    RedisConnection connection(tried, std::make_shared<EndpointResolver>(tried, never), {.largest_value = 1000});
    RemoteLink::Value value;
    const double seconds = seconds_of([&] { value = connection.get("name", Deadline::in(std::chrono::minutes(1))); });
    CHECK(value.outcome == RemoteLink::Value::Outcome::unavailable);
    CHECK(seconds < 30);
    CHECK(
        (holds(value.problem, "connecting: no answer in time") || holds(value.problem, "looking up the host 'cache.example' takes long")));
  }
}

TEST_CASE("remote: a hung server is given up") {
  ScriptedServer hung([](Peer& peer) { peer.wait_until_client_goes(); });
  loses_little_to("accepts and never answers", hung.url());
  loses_little_to("never answers AUTH", fmt::format("redis://:hunter2@127.0.0.1:{}", hung.port()));
  ScriptedServer half([](Peer& peer) {
    peer.command();
    peer.write("$400\r\nhalf an answer");
    peer.wait_until_client_goes();
  });
  loses_little_to("half an answer", half.url());
}

TEST_CASE("remote: a dripping server cannot stretch the deadline") {
  ScriptedServer value([](Peer& peer) {
    peer.command();
    peer.write("$100000\r\n");
    while (peer.pause_milliseconds(1) && peer.write("x")) {
    }
  });
  loses_little_to("a byte of the value at a time", value.url());
  ScriptedServer line([](Peer& peer) {
    peer.command();
    peer.write("-");
    while (peer.pause_milliseconds(1) && peer.write("x")) {
    }
  });
  loses_little_to("a byte of a line at a time", line.url());
}

TEST_CASE("remote: a lying server is given up and nothing of it is given") {
  const std::string random(200, '\x5A');
  const std::map<std::string, std::string> answers{
      {"random bytes", fmt::format("$200\r\n{}\r\n", random)},
      {"an empty value", "$0\r\n\r\n"},
      {"an array", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"},
      {"arrays in arrays", std::string("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n")},
      {"an array of 2^31 elements", "*2147483648\r\n"},
      {"a number", ":1\r\n"},
      {"a status", "+OK\r\n"},
      {"another protocol", "HTTP/1.1 400 Bad Request\r\n\r\n"},
      {"a value of 2^62 bytes", "$4611686018427387904\r\nx"},
      {"a value of the largest length", "$9223372036854775807\r\nx"},
      {"two answers", "$-1\r\n$-1\r\n"},
      {"another type", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"}};
  for (const auto& [name, answer] : answers) {
    ScriptedServer server(always(answer));
    is_answered(name, server.url(), Outcome::bad);
    loses_little_to(name, server.url());
  }
  for (const auto& [name, answer] :
       std::map<std::string, std::string>{{"an error", "-ERR no\r\n"}, {"loading", "-LOADING Redis is loading\r\n"}}) {
    ScriptedServer server(always(answer));
    is_answered(name, server.url(), Outcome::unavailable);
    loses_little_to(name, server.url());
  }
  ScriptedServer closing([](Peer& peer) { peer.command(); });
  loses_little_to("closes without an answer", closing.url());
}

TEST_CASE("remote: an answer of more than was announced spoils nothing that follows") {
  const SecretKey secret = *parse_secret_key(kHexKey);
  const auto entry = some_bytes(100);
  const auto sealed = seal_entry(entry, numbered_key(1), secret);
  const std::string value(reinterpret_cast<const char*>(sealed.data()), sealed.size());
  std::atomic<int> commands = 0;
  ScriptedServer server([&](Peer& peer) {
    while (!peer.command().empty()) {
      // A miss with what looks like the next answer behind it, in the same packet or a little later; then the truth.
      const int now = ++commands;
      if (now <= 2) {
        peer.write("$-1\r\n");
        if (now == 2) peer.pause_milliseconds(5);
        peer.write("$3\r\nlie\r\n");
      } else {
        peer.write(fmt::format("${}\r\n{}\r\n", value.size(), value));
      }
    }
  });
  const OpenedTier opened(server.url());
  Outcome outcome = Outcome::miss;
  for (int i = 0; i < 10 && outcome != Outcome::hit; ++i) {
    const auto fetched = opened.tier->fetch(numbered_key(1));
    outcome = fetched.outcome;
    if (outcome == Outcome::hit) CHECK(fetched.entry == entry);
    CHECK_FALSE((outcome == Outcome::bad && !holds(fetched.problem, "more bytes than one answer")));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // until the late part is there
  }
  CHECK(outcome == Outcome::hit);
}

TEST_CASE("remote: a value above the limit is not taken in") {
  // The server would send 512 MiB; the client has to leave after the announcement.
  std::atomic<std::uint64_t> sent = 0;
  ScriptedServer server([&](Peer& peer) {
    peer.command();
    if (!peer.write("$536870912\r\n")) return;
    const std::string piece(65536, 'v');
    while (peer.write(piece)) sent += piece.size();
  });
  const OpenedTier opened(server.url(), Patience::endless, [](RemoteOptions& options) { options.largest_entry = mebibytes(1); });
  const auto fetched = opened.tier->fetch(numbered_key(1));
  CHECK(fetched.outcome == Outcome::bad);
  CHECK(holds(fetched.problem, "a value of 536870912 bytes; at most 1048620 are read"));
  CHECK(fetched.entry.empty());
  CHECK(sent < (std::uint64_t{64} << 20));  // what the kernel's buffers held
}

TEST_CASE("remote: a name whose look-up hangs is given up, and the tier does not wait for it") {
  const auto asked = std::make_shared<std::atomic<int>>(0);
  const auto go = std::make_shared<std::atomic<bool>>(false);
  RemoteAddress address = *parse_remote_url("redis://cache.example");
  const auto links = [=] {
    const auto resolver =
        std::make_shared<EndpointResolver>(address, [=](const std::string&, std::uint16_t) -> Result<std::vector<SocketAddress>> {
          ++*asked;
          while (!*go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          ++*asked;
          return fail(ErrorCode::not_found, "no such name");
        });
    const RedisSettings redis{.largest_value = 1000};
    return LinkPair{std::make_unique<RedisConnection>(address, resolver, redis),
                    std::make_unique<RedisConnection>(address, resolver, redis)};
  };
  TierSettings settings{.server = address.text(), .name_space = "kernwright", .largest_entry = {1000}, .limits = {}};
  {
    LinkTier tier(settings, *parse_secret_key(kHexKey), links, {}, std::make_shared<MovedClock>());
    for (unsigned i = 0; i < 300; ++i) CHECK(tier.fetch(numbered_key(i)).outcome == Outcome::unavailable);
    CHECK(tier.statistics().breaker_openings == 1);
    tier.store(numbered_key(1), shared(some_bytes(10)));
    tier.flush(60);
    CHECK(tier.statistics().store_failures == 1);
    CHECK(eventually([&] { return *asked == 1; }));
  }
  CHECK(*asked == 1);
  *go = true;
  CHECK(eventually([&] { return *asked == 2; }));
}

TEST_CASE("remote: stores to a hung server end, and so does the tier") {
  ScriptedServer hung([](Peer& peer) { peer.wait_until_client_goes(); });
  const OpenedTier opened(hung.url(), Patience::as_in_production);
  for (unsigned i = 0; i < 20; ++i) opened.tier->store(numbered_key(i), shared(some_bytes(1000)));
  opened.tier->flush(60);
  const auto counted = opened.tier->statistics();
  CHECK(counted.store_failures == 3);
  CHECK(counted.dropped == 17);
  CHECK(hung.connections() == 3);
  CHECK(opened.log.count("is not sent entries for 30 s") == 1);
}

TEST_CASE("remote: no message holds the password, whatever the server repeats") {
  // As a server without AUTH answers: with the words that came.
  ScriptedServer server([](Peer& peer) {
    for (auto words = peer.command(); !words.empty(); words = peer.command()) {
      std::string text = fmt::format("-ERR unknown command '{}', with args beginning with:", words[0]);
      for (std::size_t i = 1; i < words.size(); ++i) text += fmt::format(" '{}'", words[i]);
      peer.write(text + "\r\n");
    }
  });
  const OpenedTier opened(fmt::format("redis://user:hunter2@127.0.0.1:{}", server.port()));
  const auto fetched = opened.tier->fetch(numbered_key(1));
  CHECK(fetched.outcome == Outcome::unavailable);
  CHECK(fetched.problem == "the server refuses AUTH: ERR");
  for (unsigned i = 0; i < 5; ++i) opened.tier->fetch(numbered_key(i));
  CHECK(opened.log.lines().size() == 1);
  CHECK(opened.log.count("hunter2") == 0);
}

TEST_CASE("remote: a server's words are made printable before they are logged") {
  ScriptedServer server(always(fmt::format("-ERR \x1b[31mred\x07{}\r\n", std::string(300, 'x'))));
  const OpenedTier opened(server.url());
  const auto fetched = opened.tier->fetch(numbered_key(1));
  CHECK(holds(fetched.problem, "ERR ?[31mred?xxx"));
  CHECK(fetched.problem.size() < 200);
}

TEST_CASE("remote: the child of a fork leaves its parent's connection alone") {
  const SecretKey secret = *parse_secret_key(kHexKey);
  const auto entry = some_bytes(2000);
  const auto sealed = seal_entry(entry, numbered_key(1), secret);
  const std::string value(reinterpret_cast<const char*>(sealed.data()), sealed.size());
  ScriptedServer server(always(fmt::format("${}\r\n{}\r\n", value.size(), value)));
  const OpenedTier opened(server.url());
  CHECK(opened.tier->fetch(numbered_key(1)).outcome == Outcome::hit);
  CHECK(opened.tier->fetch(numbered_key(1)).outcome == Outcome::hit);
  CHECK(server.connections() == 1);  // kept
  const pid_t child = ::fork();
  if (child == 0) {
    bool all = true;
    for (int i = 0; i < 20; ++i) all = all && opened.tier->fetch(numbered_key(1)).entry == entry;
    ::_exit(all ? 0 : 1);
  }
  REQUIRE(child > 0);
  for (int i = 0; i < 20; ++i) CHECK(opened.tier->fetch(numbered_key(1)).entry == entry);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(opened.tier->fetch(numbered_key(1)).outcome == Outcome::hit);
  CHECK(server.connections() == 2);
}
