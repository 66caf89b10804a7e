#include "remote/circuit_breaker.hpp"

#include <doctest/doctest.h>

using namespace kernwright;

namespace {
using Permission = CircuitBreaker::Permission;
}

TEST_CASE("remote: the breaker opens after three failures in a row and not before") {
  CircuitBreaker breaker({});
  CHECK(breaker.ask(0) == Permission::granted);
  CHECK_FALSE(breaker.failed(0, 0.001));
  CHECK_FALSE(breaker.failed(0, 0.001));
  breaker.succeeded();
  CHECK_FALSE(breaker.failed(0, 0.001));
  CHECK_FALSE(breaker.failed(0, 0.001));
  CHECK(breaker.ask(0) == Permission::granted);
  CHECK(breaker.failed(0, 0.001));
  CHECK(breaker.ask(0) == Permission::refused);
  CHECK(breaker.refuses(0));
}

TEST_CASE("remote: after 30 seconds one caller may try") {
  CircuitBreaker breaker({});
  for (int i = 0; i < 3; ++i) breaker.failed(100, 0.001);
  CHECK(breaker.ask(129.9) == Permission::refused);
  CHECK_FALSE(breaker.refuses(130));
  CHECK(breaker.ask(130) == Permission::trial);
  CHECK(breaker.ask(130) == Permission::refused);
  CHECK(breaker.ask(1000) == Permission::refused);  // whoever tries has to report
  CHECK(breaker.refuses(1000));

  // A trial in vain: another 30 seconds from its end.
  CHECK(breaker.failed(200, 0.001));
  CHECK(breaker.ask(229.9) == Permission::refused);
  CHECK(breaker.ask(230) == Permission::trial);

  // One that succeeds closes it, on probation: one failure opens it again.
  breaker.succeeded();
  CHECK(breaker.ask(230) == Permission::granted);
  CHECK(breaker.failed(230, 0.001));
  CHECK(breaker.ask(230) == Permission::refused);
  CHECK(breaker.ask(260) == Permission::trial);
  breaker.succeeded();
  breaker.succeeded();  // the probation is over
  CHECK_FALSE(breaker.failed(260, 0.001));
  CHECK_FALSE(breaker.failed(260, 0.001));
  CHECK(breaker.failed(260, 0.001));
}

TEST_CASE("remote: failures that together took long open the breaker, whatever succeeded in between") {
  CircuitBreaker breaker({});
  for (int i = 0; i < 2; ++i) {
    CHECK_FALSE(breaker.failed(0, 0.05));
    breaker.succeeded();
  }
  CHECK(breaker.failed(0, 0.05));
  CHECK(breaker.ask(0) == Permission::refused);
  // What was lost before counts no more.
  CHECK(breaker.ask(30) == Permission::trial);
  breaker.succeeded();
  breaker.succeeded();
  CHECK_FALSE(breaker.failed(30, 0.05));
}

TEST_CASE("remote: what was asked before the breaker opened changes nothing afterwards") {
  CircuitBreaker breaker({});
  for (int i = 0; i < 3; ++i) breaker.failed(0, 0.001);
  breaker.succeeded();
  CHECK(breaker.ask(1) == Permission::refused);
  CHECK_FALSE(breaker.failed(20, 0.001));
  CHECK(breaker.ask(30) == Permission::trial);  // not put off by the late failure
}
