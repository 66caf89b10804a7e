// Paged MLA decode on the device.
#include <doctest/doctest.h>

#include "cases/paged_mla_case.hpp"
#include "gpu/gpu_fixture.hpp"
#include "gpu/graph_capture.hpp"

using namespace kernwright;
using namespace kernwright::cases;
using gpu::CapturedGraph;
using gpu::kDevice;

namespace {

PagedMlaCase long_case(int heads, int query_tokens, int page_size, int layers) {
  PagedMlaCase c;
  c.heads = heads;
  c.query_tokens = query_tokens;
  c.page_size = page_size;
  c.layers = layers;
  c.lengths = {4000, 1, 0, 777, 2048, 63, 64, 65, 1500};
  return c;
}

}  // namespace

TEST_CASE("gpu paged MLA decode: the cases of host, every tile that is offered") {
  const Runtime runtime = gpu::runtime();
  for (PagedMlaCase c : paged_mla_cases()) {
    for (const Tile& tile : fitting_tiles(runtime, kDevice, c)) {
      c.tile = tile;
      decode_is_right(runtime, kDevice, c);
    }
  }
}

TEST_CASE("gpu paged MLA decode: long requests, as the op cuts them for the device") {
  const Runtime runtime = gpu::runtime();
  for (const int heads : {8, 16, 128}) {
    for (const int query_tokens : {1, 2, 4}) {
      for (const int layers : {0, 3}) decode_is_right(runtime, kDevice, long_case(heads, query_tokens, 64, layers));
    }
  }
  PagedMlaCase without_rope = long_case(128, 2, 16, 0);
  without_rope.d_qk = 512;
  decode_is_right(runtime, kDevice, without_rope);
}

TEST_CASE("gpu paged MLA decode: any number of shares, and the planted faults turn the check red") {
  const Runtime runtime = gpu::runtime();
  PagedMlaCase c = long_case(16, 4, 16, 0);
  c.planted = false;
  for (const int shares : {1, 2, 3, 7, 100, 3000}) {
    CAPTURE(shares);
    const auto check = run_apart(runtime, kDevice, c, shares, DecodeFault::none);
    CHECK_MESSAGE(check.passed, check.first_failure);
  }
  for (const DecodeFault fault :
       {DecodeFault::split_dropped, DecodeFault::weight_wrong, DecodeFault::causal_off_by_one, DecodeFault::tail_not_masked}) {
    CAPTURE(to_string(fault));
    CHECK_FALSE(run_apart(runtime, kDevice, c, 7, fault).passed);
  }
}

TEST_CASE("gpu paged MLA decode: a query that is not finite, its request whole and cut, every tile that is offered") {
  const Runtime runtime = gpu::runtime();
  for (const int heads : {2, 64}) {
    PagedMlaCase c;
    c.heads = heads;
    c.lengths = {200, 40};
    for (const Tile& tile : fitting_tiles(runtime, kDevice, c)) {
      c.tile = tile;
      for (const int shares : {1, 4}) {
        c.shares = shares;
        query_that_is_not_finite_stays_alone(runtime, kDevice, c);
      }
    }
  }
}

TEST_CASE("gpu paged MLA decode: compaction changes where rows are and nothing else") {
  const Runtime runtime = gpu::runtime();
  for (const int page_size : {1, 64}) {
    decode_follows_compaction(runtime, kDevice, long_case(8, 4, page_size, 3));
    sparse_form_follows_compaction(runtime, kDevice, long_case(8, 4, page_size, 3));
  }
}

TEST_CASE("gpu paged MLA decode: captured once, replayed with other lengths and after compaction, equals eager bit for bit") {
  const Runtime runtime = gpu::runtime();
  const PagedMlaCase c = long_case(16, 2, 64, 3);
  auto op = PagedMlaDecode::create(runtime, options_of(c, kDevice));
  REQUIRE_MESSAGE(op, (op ? "" : op.error().text()));
  const auto inputs = make_inputs(c);
  UnifiedRows rows(runtime, kDevice, c, *inputs);
  PagedMlaProblem problem(runtime, kDevice, c, *inputs, rows, op->workspace_bytes());
  auto stream = runtime.create_stream(kDevice);
  REQUIRE(stream);
  CapturedGraph::begin(stream->handle());
  const auto captured = op->run(problem.arguments, stream->handle());
  CHECK_MESSAGE(captured, (captured ? "" : captured.error().text()));
  const CapturedGraph graph = CapturedGraph::end(stream->handle());
  CHECK(graph.nodes() == 2);

  const auto replay_equals_eager = [&] {
    problem.poison();
    graph.replay(stream->handle());
    REQUIRE(stream->synchronize());
    const auto replayed = problem.download();
    problem.poison();
    REQUIRE(op->run(problem.arguments, stream->handle()));
    REQUIRE(stream->synchronize());
    const auto eager = problem.download();
    CHECK(replayed.out == eager.out);
    CHECK(replayed.lse == eager.lse);
    return replayed;
  };
  judge(*inputs, replay_equals_eager());
  CHECK(rows.compact() > 0);
  judge(*inputs, replay_equals_eager());
  // Shorter requests are those whose newest keys are missing: the reference's first so many.
  PagedMlaCase shorter = c;
  for (std::int64_t& length : shorter.lengths) length -= length / 3;
  problem.write_lengths(shorter.lengths);
  const auto outputs = replay_equals_eager();
  for (std::size_t token = 0; token < inputs->visible.size(); ++token) {
    const auto request = token / static_cast<std::size_t>(c.query_tokens);
    const auto own = static_cast<std::int64_t>(token) % c.query_tokens;
    inputs->visible[token] = static_cast<std::int32_t>(std::max<std::int64_t>(0, shorter.lengths[request] - c.query_tokens + own + 1));
  }
  judge(*inputs, outputs);
}
