// The contract of sparse MLA prefill on the host interpreter, both variants. tests/gpu runs the same cases on a CUDA device.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "cases/case_tiles.hpp"
#include "cases/sparse_mla_case.hpp"
#include "fixtures/shared_store.hpp"

using namespace kernwright;
using namespace kernwright::cases;

namespace {

void run_contract(const char* variant, int heads) {
  const Runtime runtime = tests::shared_store_runtime();
  for (SparseMlaCase c : contract_cases()) {
    if (c.heads != heads) continue;
    c.tile = first_tile(runtime, DeviceId::host(), c, variant);
    CAPTURE(c.text());
    auto outcome = run_case(runtime, DeviceId::host(), c);
    REQUIRE_MESSAGE(outcome, (outcome ? "" : outcome.error().text()));
    CHECK_MESSAGE(outcome->passed(), outcome->text());
    CHECK(outcome->reports.back().tile_fitted == *c.tile);
  }
}

}  // namespace

// One test case for each head count, so that they run side by side.
TEST_CASE("sparse MLA on host: portable, 1 head") {
  run_contract("portable", 1);
}
TEST_CASE("sparse MLA on host: portable, 4 heads") {
  run_contract("portable", 4);
}
TEST_CASE("sparse MLA on host: portable, 8 heads") {
  run_contract("portable", 8);
}
TEST_CASE("sparse MLA on host: portable, 12 heads") {
  run_contract("portable", 12);
}
TEST_CASE("sparse MLA on host: portable, 16 heads") {
  run_contract("portable", 16);
}
TEST_CASE("sparse MLA on host: portable, 20 heads") {
  run_contract("portable", 20);
}
TEST_CASE("sparse MLA on host: portable, 32 heads") {
  run_contract("portable", 32);
}
TEST_CASE("sparse MLA on host: portable, 64 heads") {
  run_contract("portable", 64);
}
TEST_CASE("sparse MLA on host: portable, 128 heads") {
  run_contract("portable", 128);
}
TEST_CASE("sparse MLA on host: mma, 1 head") {
  run_contract("mma", 1);
}
TEST_CASE("sparse MLA on host: mma, 4 heads") {
  run_contract("mma", 4);
}
TEST_CASE("sparse MLA on host: mma, 8 heads") {
  run_contract("mma", 8);
}
TEST_CASE("sparse MLA on host: mma, 12 heads") {
  run_contract("mma", 12);
}
TEST_CASE("sparse MLA on host: mma, 16 heads") {
  run_contract("mma", 16);
}
TEST_CASE("sparse MLA on host: mma, 20 heads") {
  run_contract("mma", 20);
}
TEST_CASE("sparse MLA on host: mma, 32 heads") {
  run_contract("mma", 32);
}
TEST_CASE("sparse MLA on host: mma, 64 heads") {
  run_contract("mma", 64);
}
TEST_CASE("sparse MLA on host: mma, 128 heads") {
  run_contract("mma", 128);
}

TEST_CASE("sparse MLA on host: the planted faults turn the check red") {
  const Runtime runtime = tests::shared_store_runtime();
  for (const int group : {8, 16}) {
    SparseMlaCase c;
    c.group_size = group;
    c.tokens = 2 * group + 3;
    c.topk = 60;
    c.kv_rows = 120;
    c.statistics = true;
    auto sound = run_mutated_union(runtime, DeviceId::host(), c, Mutation::none);
    REQUIRE_MESSAGE(sound, (sound ? "" : sound.error().text()));
    CHECK_MESSAGE(sound->passed(), sound->text());
    for (const Mutation mutation :
         {Mutation::row_doubled, Mutation::row_dropped, Mutation::mask_bit_flipped, Mutation::tail_skipped, Mutation::union_end_skipped}) {
      CAPTURE(to_string(mutation));
      auto faulty = run_mutated_union(runtime, DeviceId::host(), c, mutation);
      REQUIRE(faulty);
      CHECK_FALSE(faulty->passed());
    }
  }
}

TEST_CASE("sparse MLA on host: empty problems") {
  const Runtime runtime = tests::shared_store_runtime();
  for (const int group : {0, 8}) {
    SparseMlaCase none;
    none.group_size = group;
    none.tokens = 0;
    auto outcome = run_case(runtime, DeviceId::host(), none);
    REQUIRE_MESSAGE(outcome, (outcome ? "" : outcome.error().text()));
    SparseMlaCase no_rows;
    no_rows.group_size = group;
    no_rows.kv_rows = 0;
    no_rows.statistics = true;
    no_rows.sink = true;
    outcome = run_case(runtime, DeviceId::host(), no_rows);
    REQUIRE_MESSAGE(outcome, (outcome ? "" : outcome.error().text()));
    CHECK_MESSAGE(outcome->passed(), outcome->text());
    CHECK(std::all_of(outcome->out.begin(), outcome->out.end(), [](support::Bf16 v) { return (v & 0x7fff) == 0; }));
    SparseMlaCase one_row;
    one_row.group_size = group;
    one_row.kv_rows = 1;
    one_row.topk = 1;
    one_row.tokens = 1;
    outcome = run_case(runtime, DeviceId::host(), one_row);
    REQUIRE_MESSAGE(outcome, (outcome ? "" : outcome.error().text()));
    CHECK_MESSAGE(outcome->passed(), outcome->text());
  }
}

TEST_CASE("sparse MLA on host: a small workspace runs a long call in chunks of whole groups") {
  const Runtime runtime = tests::shared_store_runtime();
  SparseMlaCase c;
  c.tokens = 43;
  c.statistics = true;
  c.topk_length = true;
  SparseMlaPrefillOptions options = options_of(c, DeviceId::host());
  options.workspace_limit = Bytes{2560};  // holds one group of 320 rows; of these 96 rows a group needs 480 bytes
  auto op = SparseMlaPrefill::create(runtime, options);
  REQUIRE_MESSAGE(op, (op ? "" : op.error().text()));
  CHECK(op->workspace_bytes(c.tokens, c.kv_rows).count <= 2560);
  CHECK(op->launch_shapes(c.tokens, c.topk, c.kv_rows).size() >= 4);
  const auto inputs = make_inputs(c);
  const Bytes needed = op->workspace_bytes(c.tokens, c.kv_rows);
  auto problem = DeviceProblem::create(runtime, DeviceId::host(), c, *inputs, needed);
  REQUIRE(problem);
  auto& a = problem->arguments;
  REQUIRE(op->run(a, {}));
  const auto outputs = problem->download();
  REQUIRE(outputs);
  const auto check = judge(c, *inputs, *outputs);
  CHECK_MESSAGE(check.passed, check.first_failure);

  // A larger workspace changes neither the launches nor what launch_shapes() says of them.
  auto roomy = DeviceProblem::create(runtime, DeviceId::host(), c, *inputs, Bytes{4 * needed.count});
  REQUIRE(roomy);
  const auto before = runtime.counters().launches;
  REQUIRE(op->run(roomy->arguments, {}));
  const auto after = runtime.counters().launches;
  std::uint64_t launches = 0;
  for (const auto& [name, count] : after) launches += count - (before.contains(name) ? before.at(name) : 0);
  CHECK(launches == op->launch_shapes(c.tokens, c.topk, c.kv_rows).size());

  a.workspace_size = Bytes{needed.count - 1};
  auto refused = op->run(a, {});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find(std::to_string(needed.count)) != std::string::npos);
  a.workspace_size = needed;
  a.workspace = nullptr;
  CHECK_FALSE(op->run(a, {}));
}

TEST_CASE("sparse MLA on host: per token, a row is the same bits alone and in any company") {
  const Runtime runtime = tests::shared_store_runtime();
  SparseMlaCase c;
  c.group_size = 0;
  c.tokens = 6;
  const auto inputs = make_inputs(c);
  SparseMlaPrefillOptions options = options_of(c, DeviceId::host());
  options.deterministic = true;
  auto op = SparseMlaPrefill::create(runtime, options);
  REQUIRE(op);
  CHECK(op->union_used() == 0);
  auto problem = DeviceProblem::create(runtime, DeviceId::host(), c, *inputs, {});
  REQUIRE(problem);
  REQUIRE(op->run(problem->arguments, {}));
  const auto together = problem->download();
  REQUIRE(together);
  for (std::int64_t t = 0; t < c.tokens; ++t) {
    REQUIRE(problem->poison_outputs());
    SparseMlaPrefillArguments alone = problem->arguments;
    for (TensorView* view : {&alone.q, &alone.indices, &alone.out}) {
      view->data = static_cast<std::byte*>(view->data) + t * view->stride[0] * element_bytes(view->dtype);
      view->shape[0] = 1;
    }
    auto ran = op->run(alone, {});
    REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().text()));
    const auto outputs = problem->download();
    REQUIRE(outputs);
    const auto row = static_cast<std::ptrdiff_t>(t * c.heads * 512);
    CHECK(std::equal(outputs->out.begin() + row, outputs->out.begin() + row + c.heads * 512, together->out.begin() + row));
  }
}

#if !defined(__SANITIZE_THREAD__)
TEST_CASE("sparse MLA: in a forked child an op of the parent says so") {
  const Runtime runtime = tests::shared_store_runtime();
  const SparseMlaCase c;
  auto op = SparseMlaPrefill::create(runtime, options_of(c, DeviceId::host()));
  REQUIRE_MESSAGE(op, (op ? "" : op.error().text()));
  const auto inputs = make_inputs(c);
  auto problem = DeviceProblem::create(runtime, DeviceId::host(), c, *inputs, op->workspace_bytes(c.tokens, c.kv_rows));
  REQUIRE(problem);
  REQUIRE(op->run(problem->arguments, {}));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const auto refused = op->run(problem->arguments, {});
    ::_exit(!refused && refused.error().code == ErrorCode::unsupported && refused.error().message.find("fork") != std::string::npos ? 0
                                                                                                                                    : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(op->run(problem->arguments, {}));
}
#endif
