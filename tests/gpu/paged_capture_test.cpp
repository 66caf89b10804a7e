// A captured decode step over a unified pool on the device, launch counts, and addresses beyond 32 bits.
#include <doctest/doctest.h>

#include <memory>

#include "cases/captured_step_case.hpp"
#include "gpu/gpu_fixture.hpp"
#include "gpu/graph_capture.hpp"

using namespace kernwright;
using namespace kernwright::cases;
using gpu::CapturedGraph;
using gpu::kDevice;

namespace {

/// Real graphs; `nodes` is how many launches the last one holds.
Capture graphs(std::size_t& nodes) {
  return [&nodes](StreamHandle stream, const Launches& launches) {
    CapturedGraph::begin(stream);
    const Result<> done = launches(stream);
    CHECK_MESSAGE(done, (done ? "" : done.error().text()));
    const auto graph = std::make_shared<CapturedGraph>(CapturedGraph::end(stream));
    nodes = graph->nodes();
    return [graph](StreamHandle on) { graph->replay(on); };
  };
}

}  // namespace

TEST_CASE("gpu captured step: replayed with other lengths, requests and pages and after compaction, equals eager bit for bit") {
  std::size_t nodes = 0;
  CHECK(first_replay_that_differs(gpu::runtime(), kDevice, graphs(nodes), ReplayFault::none) == kNoDifference);
  CHECK(nodes == 4);  // rows, attention, merge, sparse attention
}

TEST_CASE("gpu captured step: a stale tail, or memory that is another at replay, is seen") {
  std::size_t nodes = 0;
  for (const ReplayFault fault : {ReplayFault::stale_tail, ReplayFault::block_table_rebound, ReplayFault::indices_rebound}) {
    CAPTURE(to_string(fault));
    CHECK(first_replay_that_differs(gpu::runtime(), kDevice, graphs(nodes), fault) > 0);
  }
}

TEST_CASE("gpu captured step: a unified pool adds one launch to the preparation and none to the step") {
  const Runtime runtime = gpu::runtime();
  check_launches_of_a_step(runtime, kDevice);
}

TEST_CASE("gpu far pages: every kernel that addresses the pool, past 2^31 elements") {
  const Runtime runtime = gpu::runtime();
  constexpr std::uint64_t kPool = 9'000'000'000, kNeeded = 12'000'000'000;
  const auto device = runtime.device(kDevice);
  REQUIRE(device);
  if (device->memory.count < kNeeded) {
    MESSAGE("skipped: the pool has 9 GB, and the device " << device->memory.count << " bytes");
    return;
  }
  CHECK(far_pages_are_right(runtime, kDevice, Bytes{kPool}) > std::int64_t{1} << 31);
}
