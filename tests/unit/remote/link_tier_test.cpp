// The tier's rules, over links that do as the test says: no socket, no waiting.
#include "remote/link_tier.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <new>

#include "remote/sealed_value.hpp"
#include "unit/remote/remote_fixture.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

using Outcome = RemoteTier::Fetched::Outcome;
using Value = RemoteLink::Value;

/// Both links of a tier: what they do, and what was asked of them.
struct FakeServer {
  std::function<Value(const std::string&, Deadline)> on_get = [](const std::string&, Deadline) {
    return Value{Value::Outcome::absent, {}, {}};
  };
  std::function<std::string(const std::string&, std::span<const std::byte>, Deadline)> on_set =
      [](const std::string&, std::span<const std::byte>, Deadline) { return std::string(); };
  std::atomic<int> gets = 0;
  std::atomic<int> sets = 0;
  std::atomic<int> pairs = 0;
};

class FakeLink final : public RemoteLink {
 public:
  explicit FakeLink(std::shared_ptr<FakeServer> server) : server_(std::move(server)) {}
  Value get(const std::string& name, Deadline deadline) override {
    ++server_->gets;
    return server_->on_get(name, deadline);
  }
  std::string set(const std::string& name, std::span<const std::byte> value, Deadline deadline) override {
    ++server_->sets;
    return server_->on_set(name, value, deadline);
  }

 private:
  std::shared_ptr<FakeServer> server_;
};

struct Setup {
  std::shared_ptr<FakeServer> server = std::make_shared<FakeServer>();
  std::shared_ptr<MovedClock> clock = std::make_shared<MovedClock>();
  LogLines log;
  SecretKey secret = *parse_secret_key(kHexKey);
  std::unique_ptr<LinkTier> tier;

  explicit Setup(TierLimits limits = {}) {
    TierSettings settings{.server = "redis://test:1", .name_space = "space", .largest_entry = {1000}, .limits = limits};
    const auto links = [server = server] {
      ++server->pairs;
      return LinkPair{std::make_unique<FakeLink>(server), std::make_unique<FakeLink>(server)};
    };
    tier = std::make_unique<LinkTier>(settings, secret, links, log.logger(), clock);
  }
  void idle() const { tier->flush(60); }
};

Value unavailable(std::string problem = "no answer") {
  return {Value::Outcome::unavailable, {}, std::move(problem)};
}

Value absent() {
  return {Value::Outcome::absent, {}, {}};
}

}  // namespace

TEST_CASE("remote: a fetch asks for <name space>:v1:<key> and gives the entry that was sealed for it") {
  Setup setup;
  const auto entry = some_bytes(500);
  std::string asked;
  setup.server->on_get = [&](const std::string& name, Deadline) {
    asked = name;
    return Value{Value::Outcome::present, seal_entry(entry, numbered_key(1), setup.secret), {}};
  };
  auto fetched = setup.tier->fetch(numbered_key(1));
  CHECK(fetched.outcome == Outcome::hit);
  CHECK(fetched.entry == entry);
  CHECK(asked == "space:v1:" + numbered_key(1).hex());

  fetched = setup.tier->fetch(numbered_key(2));  // the same value under another key
  CHECK(fetched.outcome == Outcome::bad);
  CHECK(fetched.entry.empty());
  CHECK(holds(fetched.problem, "not authentic"));
  CHECK(setup.log.count("space:v1:" + numbered_key(2).hex()) == 1);
  const auto counted = setup.tier->statistics();
  CHECK(counted.hits == 1);
  CHECK(counted.bad == 1);
  CHECK(counted.misses == 0);
  CHECK(counted.unavailable == 0);
}

TEST_CASE("remote: every deadline is 50 ms from the call's start") {
  Setup setup;
  using Time = Deadline::Clock::time_point;
  constexpr auto kLimit = std::chrono::milliseconds(50);
  Time before;
  bool in_time = true;
  setup.server->on_get = [&](const std::string&, Deadline deadline) {
    in_time = in_time && deadline.moment() >= before + kLimit && deadline.moment() <= Deadline::Clock::now() + kLimit;
    return absent();
  };
  for (unsigned i = 0; i < 100; ++i) {
    before = Deadline::Clock::now();
    CHECK(setup.tier->fetch(numbered_key(i)).outcome == Outcome::miss);
  }
  CHECK(in_time);
  setup.server->on_set = [&](const std::string&, std::span<const std::byte>, Deadline deadline) {
    in_time = in_time && deadline.moment() <= Deadline::Clock::now() + kLimit;
    return std::string();
  };
  setup.tier->store(numbered_key(1), shared(some_bytes(10)));
  setup.idle();
  CHECK(in_time);
  CHECK(setup.server->sets == 1);
}

TEST_CASE("remote: after three failures in a row nobody asks for 30 seconds, and then one trial in the background") {
  for (const Value& failure :
       {unavailable(), Value{Value::Outcome::unusable, {}, "an array"}, Value{Value::Outcome::present, some_bytes(100), {}}}) {
    Setup setup;
    Value answer = failure;
    setup.server->on_get = [&](const std::string&, Deadline) { return answer; };
    for (unsigned i = 0; i < 500; ++i) {
      const auto outcome = setup.tier->fetch(numbered_key(i)).outcome;
      CHECK(outcome == (i < 3 && failure.outcome != Value::Outcome::unavailable ? Outcome::bad : Outcome::unavailable));
    }
    CHECK(setup.server->gets == 3);
    CHECK(setup.tier->statistics().breaker_openings == 1);
    CHECK(setup.log.count("is not asked for 30 s") == 1);

    setup.clock->move(29.9);
    CHECK(setup.tier->fetch(numbered_key(1)).outcome == Outcome::unavailable);
    CHECK(setup.server->gets == 3);
    setup.clock->move(0.2);
    for (unsigned i = 0; i < 100; ++i) CHECK(setup.tier->fetch(numbered_key(i)).outcome == Outcome::unavailable);
    setup.idle();
    CHECK(setup.server->gets == 4);
    CHECK(setup.tier->statistics().breaker_openings == 2);
    for (unsigned i = 0; i < 100; ++i) setup.tier->fetch(numbered_key(i));
    setup.idle();
    CHECK(setup.server->gets == 4);
    CHECK(setup.log.count("is not asked for 30 s") == 1);  // said once

    answer = absent();
    setup.clock->move(30.1);
    CHECK(setup.tier->fetch(numbered_key(7)).outcome == Outcome::unavailable);
    setup.idle();
    CHECK(setup.server->gets == 5);
    CHECK(setup.log.count("answers again") == 1);
    CHECK(setup.tier->fetch(numbered_key(7)).outcome == Outcome::miss);
    CHECK(setup.server->gets == 6);
  }
}

TEST_CASE("remote: one bad entry among good ones is reported once and keeps nobody from asking") {
  Setup setup;
  setup.server->on_get = [&](const std::string& name, Deadline) {
    const bool bad = name.ends_with(numbered_key(0).hex()) || name.ends_with(numbered_key(1).hex());
    return Value{Value::Outcome::present, bad ? some_bytes(64) : seal_entry(some_bytes(5), numbered_key(2), setup.secret), {}};
  };
  for (int i = 0; i < 20; ++i) {
    CHECK(setup.tier->fetch(numbered_key(0)).outcome == Outcome::bad);
    CHECK(setup.tier->fetch(numbered_key(1)).outcome == Outcome::bad);
    CHECK(setup.tier->fetch(numbered_key(2)).outcome == Outcome::hit);
  }
  CHECK(setup.server->gets == 60);
  CHECK(setup.log.lines().size() == 1);
  CHECK(setup.tier->statistics().bad == 40);
}

TEST_CASE("remote: threads that ask at once lose no more than one that asks alone") {
  Setup setup;
  // A hung server: every attempt takes all of its time.
  setup.server->on_get = [](const std::string&, Deadline deadline) {
    std::this_thread::sleep_until(deadline.moment());
    return unavailable();
  };
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 200; ++i) wrong += setup.tier->fetch(numbered_key(200 * t + i)).outcome == Outcome::unavailable ? 0 : 1;
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(setup.server->gets <= 3);
  CHECK(setup.tier->statistics().breaker_openings == 1);
  CHECK(setup.tier->statistics().unavailable == 1600);
}

TEST_CASE("remote: a fetch that waits in vain for its turn is no failure of the server's") {
  TierLimits limits;
  limits.fetch_time = std::chrono::minutes(1);
  limits.turn_time = std::chrono::milliseconds(1);
  Setup setup(limits);
  std::promise<void> entered;
  std::promise<void> go;
  setup.server->on_get = [&](const std::string&, Deadline) {
    entered.set_value();
    go.get_future().wait();
    return absent();
  };
  std::thread slow([&] { setup.tier->fetch(numbered_key(1)); });
  entered.get_future().wait();
  for (unsigned i = 0; i < 10; ++i) {
    const auto fetched = setup.tier->fetch(numbered_key(2));
    CHECK(fetched.outcome == Outcome::unavailable);
    CHECK(fetched.problem == "other fetches take long");
  }
  go.set_value();
  slow.join();
  setup.server->on_get = [](const std::string&, Deadline) { return absent(); };
  CHECK(setup.tier->fetch(numbered_key(2)).outcome == Outcome::miss);
  CHECK(setup.tier->statistics().breaker_openings == 0);
}

TEST_CASE("remote: a store returns at once and what is too much is dropped and counted") {
  TierLimits limits;
  limits.queue = {.entries = 4, .bytes = Bytes{2000}};
  Setup setup(limits);
  std::promise<void> entered;
  std::promise<void> go;
  std::vector<std::string> names;
  std::vector<std::size_t> sizes;
  setup.server->on_set = [&](const std::string& name, std::span<const std::byte> value, Deadline) {
    if (names.empty()) {
      entered.set_value();
      go.get_future().wait();  // until everything below was handed over: had store() waited, the test would hang
    }
    names.push_back(name);
    sizes.push_back(value.size());
    return std::string();
  };
  setup.tier->store(numbered_key(0), shared(some_bytes(10)));
  entered.get_future().wait();
  for (unsigned i = 1; i <= 10; ++i) setup.tier->store(numbered_key(i), shared(some_bytes(i)));
  CHECK(setup.tier->statistics().dropped == 6);
  setup.tier->store(numbered_key(11), shared(some_bytes(1001)));  // above the largest entry
  setup.tier->store(numbered_key(12), nullptr);
  CHECK(setup.tier->statistics().dropped == 7);
  setup.tier->flush(0.001);  // its limit passes
  CHECK(setup.tier->statistics().stored == 0);
  go.set_value();
  setup.idle();
  CHECK(setup.tier->statistics().stored == 5);
  CHECK(sizes == std::vector<std::size_t>{54, 45, 46, 47, 48});
  CHECK(names[4] == "space:v1:" + numbered_key(4).hex());
  // There is room again, in entries and in bytes.
  for (unsigned i = 0; i < 3; ++i) {
    setup.tier->store(numbered_key(i), shared(some_bytes(1000)));
    setup.idle();
  }
  CHECK(setup.tier->statistics().stored == 8);
  CHECK(setup.tier->statistics().dropped == 7);
}

TEST_CASE("remote: the queue is bounded in bytes as well") {
  TierLimits limits;
  limits.queue = {.entries = 100, .bytes = Bytes{2000}};
  Setup setup(limits);
  std::promise<void> entered;
  std::promise<void> go;
  bool first = true;
  setup.server->on_set = [&](const std::string&, std::span<const std::byte>, Deadline) {
    if (std::exchange(first, false)) {
      entered.set_value();
      go.get_future().wait();
    }
    return std::string();
  };
  setup.tier->store(numbered_key(0), shared(some_bytes(1000)));
  entered.get_future().wait();
  for (unsigned i = 1; i <= 3; ++i) setup.tier->store(numbered_key(i), shared(some_bytes(1000)));
  CHECK(setup.tier->statistics().dropped == 1);
  go.set_value();
  setup.idle();
  CHECK(setup.tier->statistics().stored == 3);
}

TEST_CASE("remote: a server that takes nothing is left alone, and still asked for entries") {
  Setup setup;
  std::string answer = "the server says: OOM no room";
  setup.server->on_set = [&](const std::string&, std::span<const std::byte>, Deadline) { return answer; };
  for (unsigned i = 0; i < 50; ++i) {
    setup.tier->store(numbered_key(i), shared(some_bytes(10)));
    setup.idle();
  }
  CHECK(setup.server->sets == 3);
  auto counted = setup.tier->statistics();
  CHECK(counted.store_failures == 3);
  CHECK(counted.dropped == 47);
  CHECK(counted.stored == 0);
  CHECK(setup.log.count("OOM no room") == 1);
  CHECK(setup.tier->fetch(numbered_key(1)).outcome == Outcome::miss);

  answer.clear();
  setup.clock->move(30.1);
  setup.tier->store(numbered_key(1), shared(some_bytes(10)));
  setup.idle();
  setup.tier->store(numbered_key(2), shared(some_bytes(10)));
  setup.idle();
  counted = setup.tier->statistics();
  CHECK(counted.stored == 2);
  CHECK(counted.dropped == 47);
}

TEST_CASE("remote: what waits while the server fails is given up, so that a flush ends") {
  Setup setup;
  setup.server->on_set = [](const std::string&, std::span<const std::byte>, Deadline) { return std::string("no answer"); };
  for (unsigned i = 0; i < 100; ++i) setup.tier->store(numbered_key(i), shared(some_bytes(10)));
  setup.idle();
  const auto counted = setup.tier->statistics();
  CHECK(setup.server->sets == 3);
  CHECK(counted.store_failures + counted.dropped == 100);
}

TEST_CASE("remote: what a link throws ends in the tier") {
  Setup setup;
  setup.server->on_get = [](const std::string&, Deadline) -> Value { throw std::bad_alloc(); };
  setup.server->on_set = [](const std::string&, std::span<const std::byte>, Deadline) -> std::string { throw std::bad_alloc(); };
  for (unsigned i = 0; i < 5; ++i) CHECK(setup.tier->fetch(numbered_key(i)).outcome == Outcome::unavailable);
  CHECK(setup.server->gets == 3);
  setup.tier->store(numbered_key(1), shared(some_bytes(10)));
  setup.idle();
  CHECK(setup.tier->statistics().store_failures == 1);
}

TEST_CASE("remote: destroying the tier waits for the entry in hand and gives up the rest") {
  Setup setup;
  std::atomic<int> begun = 0;
  std::atomic<int> ended = 0;
  setup.server->on_set = [&](const std::string&, std::span<const std::byte>, Deadline) {
    ++begun;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ++ended;
    return std::string();
  };
  for (unsigned i = 0; i < 100; ++i) setup.tier->store(numbered_key(i), shared(some_bytes(10)));
  CHECK(eventually([&] { return begun > 0; }));
  setup.tier.reset();
  CHECK(begun == ended);
  CHECK(begun < 100);
}

TEST_CASE("remote: a child forked while another thread fetches uses links of its own") {
  Setup setup;
  std::promise<void> entered;
  std::promise<void> go;
  const pid_t parent = ::getpid();
  setup.server->on_get = [&](const std::string&, Deadline) {
    if (::getpid() == parent) {
      entered.set_value();
      go.get_future().wait();
    }
    return absent();
  };
  std::thread fetching([&] { setup.tier->fetch(numbered_key(1)); });
  entered.get_future().wait();
  const pid_t child = ::fork();
  if (child == 0) {
    // The parent's turn is taken for ever here: only links and a turn of its own let the child through.
    const bool asked = setup.tier->fetch(numbered_key(2)).outcome == Outcome::miss && setup.server->pairs == 2;
    setup.tier->flush(1);
    setup.tier.reset();
    ::_exit(asked ? 0 : 1);
  }
  REQUIRE(child > 0);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  go.set_value();
  fetching.join();
  CHECK(setup.server->pairs == 1);
  CHECK(setup.tier->statistics().misses == 1);
}
