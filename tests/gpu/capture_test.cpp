// CUDA graphs: a prepared op is captured and replayed with other indices; preparing beside a capture does not break it.
#include <doctest/doctest.h>

#include <vector>

#include "cases/scale_template.hpp"
#include "cases/sparse_mla_case.hpp"
#include "cases/step_down_cases.hpp"
#include "gpu/gpu_fixture.hpp"
#include "gpu/graph_capture.hpp"

using namespace kernwright;
using namespace kernwright::cases;
using gpu::CapturedGraph;
using gpu::kDevice;

namespace {

void replay_equals_eager(int group, std::int64_t tokens, std::size_t nodes) {
  const Runtime runtime = gpu::runtime();
  SparseMlaCase c;
  c.group_size = group;
  c.tokens = tokens;
  c.kv_rows = 900;
  c.topk = 200;
  c.statistics = true;
  SparseMlaCase fewer = c, more = c;
  fewer.holes = true;  // fewer union rows
  more.seed = 9;       // another walk
  auto op = SparseMlaPrefill::create(runtime, options_of(c, kDevice));
  REQUIRE_MESSAGE(op, (op ? "" : op.error().text()));
  const auto inputs = make_inputs(c);
  auto problem = DeviceProblem::create(runtime, kDevice, c, *inputs, op->workspace_bytes(c.tokens, c.kv_rows));
  auto stream = runtime.create_stream(kDevice);
  REQUIRE(problem);
  REQUIRE(stream);
  CapturedGraph::begin(stream->handle());
  auto captured = op->run(problem->arguments, stream->handle());
  CHECK_MESSAGE(captured, (captured ? "" : captured.error().text()));
  const CapturedGraph graph = CapturedGraph::end(stream->handle());
  CHECK(graph.nodes() == nodes);

  for (const SparseMlaCase& next : {c, fewer, more}) {
    CAPTURE(next.text());
    auto indices = make_inputs(next)->indices;
    REQUIRE(problem->upload_indices(indices));
    REQUIRE(problem->poison_outputs());
    graph.replay(stream->handle());
    REQUIRE(stream->synchronize());
    const auto replayed = problem->download();
    REQUIRE(problem->poison_outputs());
    REQUIRE(op->run(problem->arguments, stream->handle()));
    REQUIRE(stream->synchronize());
    const auto eager = problem->download();
    REQUIRE(replayed);
    REQUIRE(eager);
    CHECK(replayed->out == eager->out);
    CHECK(replayed->lse == eager->lse);
    auto judged = make_inputs(c);
    judged->indices = indices;
    judged->problem.indices = judged->indices;
    const auto check = judge(c, *judged, *replayed);
    CHECK_MESSAGE(check.passed, check.first_failure);
  }
}

}  // namespace

TEST_CASE("gpu capture: union, replayed with fewer and with other rows, equals eager bit for bit") {
  replay_equals_eager(8, 150, 2);
}
TEST_CASE("gpu capture: per token, replayed with other indices, equals eager bit for bit") {
  replay_equals_eager(0, 150, 1);
}
TEST_CASE("gpu capture: per token, tokens taken one by one, equals eager bit for bit") {
  const Runtime runtime = gpu::runtime();
  if (runtime.device(kDevice)->target.name() != "sm_90a") {
    MESSAGE("skipped: not an sm_90a device");
    return;
  }
  const std::int64_t tokens = 9 * runtime.device(kDevice)->multiprocessors;
  replay_equals_eager(0, tokens, 2);  // the counter is set to 0 in front of each launch
}

TEST_CASE("gpu capture: preparing a kernel while a stream captures breaks nothing") {
  const Runtime runtime = gpu::runtime();
  REQUIRE(runtime.register_template(scale_template()));
  auto stream = runtime.create_stream(kDevice);
  REQUIRE(stream);
  PrepareRequest request{"test/scale", Specialisation{}.set("factor", 2), kDevice, *Tile::parse("plain:m1n40s1w2"), sizeof(ScaleParams),
                         std::nullopt};
  auto first = runtime.prepare(request);
  REQUIRE(first);
  CapturedGraph::begin(stream->handle());
  auto launched = first->launch(Grid{1, 1, 1}, ScaleParams{}, stream->handle());
  REQUIRE_MESSAGE(launched, (launched ? "" : launched.error().text()));
  request.specialisation.set("factor", 11);
  auto second = runtime.prepare(request);
  CHECK_MESSAGE(second, (second ? "" : second.error().text()));
  const CapturedGraph graph = CapturedGraph::end(stream->handle());
  CHECK(graph.nodes() == 1);
  graph.replay(stream->handle());
  REQUIRE(stream->synchronize());
  CHECK(scales_rightly(runtime, kDevice, *second, 11));
}
