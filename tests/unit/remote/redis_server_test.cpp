// The remote tier against a real Redis server.
#include "unit/remote/redis_server.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "fixtures/example_artifact.hpp"
#include "store/entry_format.hpp"
#include "unit/remote/opened_tier.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

using Outcome = RemoteTier::Fetched::Outcome;

std::string name_of(const EntryKey& key, const std::string& name_space = "kernwright") {
  return name_space + ":v1:" + key.hex();
}

}  // namespace

TEST_CASE("remote: entries go to a Redis server and come back, over TCP and over a Unix socket") {
  const auto server = RedisServer::start({}, true);
  if (!server) return;
  const auto entry = encode_entry(example_artifact());
  REQUIRE(entry);
  for (const std::string& url : {server->unix_url(), server->tcp_url(), "redis://localhost:" + std::to_string(server->port()) + "/0"}) {
    CAPTURE(url);
    server->ask({"FLUSHALL"});
    const OpenedTier writer(url);
    const OpenedTier reader(url);
    CHECK(reader.tier->fetch(numbered_key(1)).outcome == Outcome::miss);
    writer.store(numbered_key(1), *entry);
    const auto fetched = reader.tier->fetch(numbered_key(1));
    CHECK(fetched.outcome == Outcome::hit);
    CHECK(fetched.entry == *entry);
    CHECK(fetched.problem.empty());
    CHECK(reader.tier->fetch(numbered_key(2)).outcome == Outcome::miss);
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{70'000}, std::size_t{3'000'000}}) {
      writer.store(numbered_key(3), some_bytes(size));
      CHECK(reader.tier->fetch(numbered_key(3)).entry == some_bytes(size));
    }
    CHECK(writer.tier->statistics().stored == 5);
    CHECK(reader.tier->statistics().hits == 5);
    CHECK(reader.tier->statistics().misses == 2);
    CHECK(writer.log.lines().empty());
    CHECK(reader.log.lines().empty());
  }
}

TEST_CASE("remote: the server holds name, header and entry as docs/cache.md says, and nothing else") {
  const auto server = RedisServer::start();
  if (!server) return;
  const OpenedTier opened(server->unix_url());
  opened.store(numbered_key(1), some_bytes(10));
  CHECK(server->ask({"DBSIZE"}) == ":1\r\n");
  const std::string value = server->get(name_of(numbered_key(1)));
  REQUIRE(value.size() == 54);
  CHECK(value.substr(0, 12) == std::string("\x89KWR\r\n\x1a\n\x01\0\0\0", 12));
  CHECK(std::memcmp(value.data() + 44, some_bytes(10).data(), 10) == 0);
  CHECK(server->ask({"TTL", name_of(numbered_key(1))}) == ":-1\r\n");
}

TEST_CASE("remote: what was changed, cut, copied or sealed with another secret on the server is refused") {
  const auto server = RedisServer::start();
  if (!server) return;
  const OpenedTier opened(server->unix_url());
  opened.store(numbered_key(1), some_bytes(500));
  opened.store(numbered_key(9), some_bytes(20, 9));
  const std::string value = server->get(name_of(numbered_key(1)));
  REQUIRE(value.size() == 544);
  const auto refused = [&](const std::string& what, const std::string& changed, unsigned key = 1) {
    CAPTURE(what);
    server->set(name_of(numbered_key(key)), changed);
    const auto fetched = opened.tier->fetch(numbered_key(key));
    CHECK(fetched.outcome == Outcome::bad);
    CHECK(fetched.entry.empty());
    CHECK_FALSE(fetched.problem.empty());
    // A good one in between, so that the breaker stays out of this test.
    CHECK(opened.tier->fetch(numbered_key(9)).outcome == Outcome::hit);
  };
  for (const std::size_t at : {0U, 8U, 12U, 43U, 44U, 300U, 543U}) {
    std::string changed = value;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    refused("byte " + std::to_string(at), changed);
  }
  refused("cut by one", value.substr(0, 543));
  refused("header only", value.substr(0, 44));
  refused("half a header", value.substr(0, 20));
  refused("nothing", "");
  refused("one more byte", value + "x");
  refused("the bare entry", value.substr(44));
  refused("another key", value, 2);
  {
    const OpenedTier other(server->unix_url(), Patience::endless, {}, "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
    other.store(numbered_key(3), some_bytes(500));
    CHECK(other.tier->fetch(numbered_key(3)).outcome == Outcome::hit);
    CHECK(other.tier->fetch(numbered_key(9)).outcome == Outcome::bad);
  }
  refused("another secret", server->get(name_of(numbered_key(3))), 3);
  server->ask({"DEL", name_of(numbered_key(1))});
  server->ask({"RPUSH", name_of(numbered_key(1)), "x"});
  const auto list = opened.tier->fetch(numbered_key(1));
  CHECK(list.outcome == Outcome::bad);
  CHECK(holds(list.problem, "WRONGTYPE"));
  CHECK(opened.log.lines().size() == 1);
  CHECK(opened.tier->statistics().bad == 16);

  server->ask({"DEL", name_of(numbered_key(1))});
  server->set(name_of(numbered_key(1)), value);
  CHECK(opened.tier->fetch(numbered_key(1)).entry == some_bytes(500));
  // A new store takes a bad one's place.
  opened.store(numbered_key(2), some_bytes(30));
  CHECK(opened.tier->fetch(numbered_key(2)).entry == some_bytes(30));
}

TEST_CASE("remote: name spaces and databases are apart") {
  const auto server = RedisServer::start();
  if (!server) return;
  const OpenedTier first(server->unix_url());
  const OpenedTier second(server->unix_url(), Patience::endless, [](RemoteOptions& options) { options.name_space = "team:b"; });
  const OpenedTier third(server->unix_url() + "?db=3");
  first.store(numbered_key(1), some_bytes(10, 1));
  CHECK(second.tier->fetch(numbered_key(1)).outcome == Outcome::miss);
  CHECK(third.tier->fetch(numbered_key(1)).outcome == Outcome::miss);
  second.store(numbered_key(1), some_bytes(10, 2));
  third.store(numbered_key(1), some_bytes(10, 3));
  CHECK(first.tier->fetch(numbered_key(1)).entry == some_bytes(10, 1));
  CHECK(second.tier->fetch(numbered_key(1)).entry == some_bytes(10, 2));
  CHECK(third.tier->fetch(numbered_key(1)).entry == some_bytes(10, 3));
  CHECK_FALSE(server->get(name_of(numbered_key(1), "team:b")).empty());
  const OpenedTier none(server->unix_url() + "?db=99");
  const auto fetched = none.tier->fetch(numbered_key(1));
  CHECK(fetched.outcome == Outcome::unavailable);
  CHECK(fetched.problem == "the server refuses SELECT: ERR");
}

TEST_CASE("remote: entries above the limit are neither sent nor read") {
  const auto server = RedisServer::start();
  if (!server) return;
  const OpenedTier small(server->unix_url(), Patience::endless, [](RemoteOptions& options) { options.largest_entry = Bytes{1000}; });
  const OpenedTier large(server->unix_url());
  small.store(numbered_key(1), some_bytes(1001));
  CHECK(small.tier->statistics().dropped == 1);
  CHECK(server->ask({"DBSIZE"}) == ":0\r\n");
  small.store(numbered_key(1), some_bytes(1000));
  CHECK(small.tier->fetch(numbered_key(1)).entry == some_bytes(1000));
  large.store(numbered_key(2), some_bytes(1001));
  const auto fetched = small.tier->fetch(numbered_key(2));
  CHECK(fetched.outcome == Outcome::bad);
  CHECK(holds(fetched.problem, "a value of 1045 bytes; at most 1044 are read"));
  CHECK(large.tier->fetch(numbered_key(2)).outcome == Outcome::hit);
  CHECK(small.tier->fetch(numbered_key(1)).outcome == Outcome::hit);  // on a new connection
}

TEST_CASE("remote: an entry with a time to live is forgotten by the server") {
  const auto server = RedisServer::start();
  if (!server) return;
  const OpenedTier opened(server->unix_url(), Patience::endless, [](RemoteOptions& options) { options.time_to_live_seconds = 1000; });
  opened.store(numbered_key(1), some_bytes(10));
  const std::string left = server->ask({"TTL", name_of(numbered_key(1))});
  const int seconds = std::stoi(left.substr(1));
  CHECK(seconds > 900);
  CHECK(seconds <= 1000);
}

TEST_CASE("remote: a server that was killed is missed and found again") {
  auto server = RedisServer::start();
  if (!server) return;
  const OpenedTier opened(server->unix_url());
  opened.store(numbered_key(1), some_bytes(10));
  CHECK(opened.tier->fetch(numbered_key(1)).outcome == Outcome::hit);
  // Restarted between two calls: the connection that broke is opened again, and no call fails.
  server->restart();
  CHECK(opened.tier->fetch(numbered_key(1)).outcome == Outcome::miss);
  opened.store(numbered_key(1), some_bytes(11));
  CHECK(opened.tier->fetch(numbered_key(1)).entry == some_bytes(11));
  CHECK(opened.tier->statistics().unavailable == 0);
  CHECK(opened.tier->statistics().store_failures == 0);

  server->kill();
  CHECK(opened.tier->fetch(numbered_key(1)).outcome == Outcome::unavailable);
  CHECK(opened.tier->fetch(numbered_key(1)).outcome == Outcome::unavailable);
  server->restart();
  CHECK(opened.tier->fetch(numbered_key(1)).outcome == Outcome::miss);

  server->kill();
  for (int i = 0; i < 5; ++i) CHECK(opened.tier->fetch(numbered_key(1)).outcome == Outcome::unavailable);
  CHECK(opened.tier->statistics().breaker_openings == 1);
  server->restart();
  CHECK(opened.tier->fetch(numbered_key(1)).outcome == Outcome::unavailable);
  opened.clock->move(30.1);
  CHECK(opened.tier->fetch(numbered_key(1)).outcome == Outcome::unavailable);
  opened.tier->flush(60);  // until the trial is done
  CHECK(opened.tier->fetch(numbered_key(1)).outcome == Outcome::miss);
}

TEST_CASE("remote: a connection that the server closes when idle is opened again unnoticed") {
  const auto server = RedisServer::start();
  if (!server) return;
  const OpenedTier opened(server->unix_url());
  opened.store(numbered_key(1), some_bytes(10));
  for (int i = 0; i < 5; ++i) {
    CHECK(opened.tier->fetch(numbered_key(1)).outcome == Outcome::hit);
    server->ask({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  }
  CHECK(opened.tier->statistics().unavailable == 0);
}

TEST_CASE("remote: a full server takes nothing, and reading goes on") {
  const auto server = RedisServer::start({"--maxmemory-policy", "noeviction"});
  if (!server) return;
  const OpenedTier opened(server->unix_url());
  opened.store(numbered_key(0), some_bytes(100));
  server->ask({"CONFIG", "SET", "maxmemory", "1"});
  for (unsigned i = 1; i <= 20; ++i) opened.store(numbered_key(i), some_bytes(1000));
  auto counted = opened.tier->statistics();
  CHECK(counted.stored == 1);
  CHECK(counted.store_failures == 3);
  CHECK(counted.dropped == 17);
  CHECK(opened.log.count("OOM command not allowed") == 1);
  for (int i = 0; i < 5; ++i) CHECK(opened.tier->fetch(numbered_key(0)).outcome == Outcome::hit);

  server->ask({"CONFIG", "SET", "maxmemory", "0"});
  opened.clock->move(30.1);
  opened.store(numbered_key(1), some_bytes(1000));
  CHECK(opened.tier->statistics().stored == 2);
  CHECK(opened.tier->fetch(numbered_key(1)).entry == some_bytes(1000));
}

TEST_CASE("remote: passwords and users") {
  const auto server = RedisServer::start({"--requirepass", "hun ter@2"});
  if (!server) return;
  const auto url = [&](const std::string& credentials, const std::string& query = "") {
    return "unix://" + credentials + server->socket().native() + query;
  };
  const OpenedTier right(url(":hun%20ter%402@"));
  right.store(numbered_key(1), some_bytes(10));
  CHECK(right.tier->fetch(numbered_key(1)).outcome == Outcome::hit);
  CHECK(OpenedTier(url("default:hun%20ter%402@", "?db=2")).tier->fetch(numbered_key(1)).outcome == Outcome::miss);
  const auto wrong = OpenedTier(url(":hunter3@")).tier->fetch(numbered_key(1));
  CHECK(wrong.outcome == Outcome::unavailable);
  CHECK(wrong.problem == "the server refuses AUTH: WRONGPASS");
  const auto none = OpenedTier(url("")).tier->fetch(numbered_key(1));
  CHECK(none.outcome == Outcome::unavailable);
  CHECK(holds(none.problem, "NOAUTH"));
}

TEST_CASE("remote: the child of a fork reads and writes by itself") {
  const auto server = RedisServer::start();
  if (!server) return;
  const OpenedTier opened(server->unix_url());
  opened.store(numbered_key(1), some_bytes(10));
  CHECK(opened.tier->fetch(numbered_key(1)).outcome == Outcome::hit);
  const pid_t child = ::fork();
  if (child == 0) {
    bool all = opened.tier->fetch(numbered_key(1)).entry == some_bytes(10);
#ifndef __SANITIZE_THREAD__  // which ends a child that starts a thread after its parent had some
    opened.store(numbered_key(2), some_bytes(20));
    all = all && opened.tier->fetch(numbered_key(2)).entry == some_bytes(20);
#endif
    ::_exit(all ? 0 : 1);
  }
  REQUIRE(child > 0);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
#ifndef __SANITIZE_THREAD__
  CHECK(opened.tier->fetch(numbered_key(2)).entry == some_bytes(20));
#endif
  opened.store(numbered_key(1), some_bytes(30));
  CHECK(opened.tier->fetch(numbered_key(1)).entry == some_bytes(30));
}

TEST_CASE("remote: threads fetch and store side by side") {
  const auto server = RedisServer::start();
  if (!server) return;
  const OpenedTier opened(server->unix_url());
  for (unsigned i = 0; i < 8; ++i) opened.store(numbered_key(i), some_bytes(1000 * i, i));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 50; ++i) {
        const unsigned key = (t + i) % 8;
        opened.tier->store(numbered_key(100 + key), shared(some_bytes(1000 * key, key)));
        const auto fetched = opened.tier->fetch(numbered_key(key));
        if (fetched.outcome != Outcome::hit || fetched.entry != some_bytes(1000 * key, key)) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(opened.tier->statistics().hits == 200);
}

TEST_CASE("remote: the time of a fetch is reported") {
  const auto server = RedisServer::start({}, true);
  if (!server) return;
  for (const std::string& url : {server->unix_url(), server->tcp_url()}) {
    const OpenedTier opened(url);
    opened.store(numbered_key(1), some_bytes(100'000));
    std::vector<double> microseconds;
    for (int i = 0; i < 1000; ++i) {
      const auto start = std::chrono::steady_clock::now();
      opened.tier->fetch(numbered_key(1));
      microseconds.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
    std::sort(microseconds.begin(), microseconds.end());
    CHECK(opened.tier->statistics().hits == 1000);
    MESSAGE("100 KB over " << std::string(url.starts_with("unix") ? "a Unix socket" : "TCP") << ": median " << microseconds[500]
                           << " us, 99th of 100 " << microseconds[990] << " us");
  }
}
