// A decode step that keeps the arguments of its capture, on the host interpreter. tests/gpu runs the same with graphs.
#include <doctest/doctest.h>

#include "cases/captured_step_case.hpp"
#include "fixtures/shared_store.hpp"

using namespace kernwright;
using namespace kernwright::cases;

TEST_CASE("captured step on host: launched again with other lengths, requests and pages and after compaction, equals eager bit for bit") {
  CHECK(first_replay_that_differs(tests::shared_store_runtime(), DeviceId::host(), frozen_arguments(), ReplayFault::none) == kNoDifference);
}

TEST_CASE("captured step on host: a stale tail, or memory that is another at replay, is seen") {
  for (const ReplayFault fault : {ReplayFault::stale_tail, ReplayFault::block_table_rebound, ReplayFault::indices_rebound}) {
    CAPTURE(to_string(fault));
    CHECK(first_replay_that_differs(tests::shared_store_runtime(), DeviceId::host(), frozen_arguments(), fault) > 0);
  }
}

TEST_CASE("captured step on host: a unified pool adds one launch to the preparation and none to the step") {
  check_launches_of_a_step(tests::shared_store_runtime(), DeviceId::host());
}

TEST_CASE("far pages on host: every kernel that addresses the pool, in the last pages of a small one") {
  // 20 pages of 24 layers: tests/gpu has a pool past 2^31 elements.
  CHECK(far_pages_are_right(tests::shared_store_runtime(), DeviceId::host(), Bytes{20 * 24 * 64 * 1152}) > 0);
}
