// The contract on the device: every head count and union, all variants, every tile of the fall-back order, large shapes.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "cases/case_tiles.hpp"
#include "cases/sparse_mla_case.hpp"
#include "gpu/gpu_fixture.hpp"

using namespace kernwright;
using namespace kernwright::cases;
using gpu::kDevice;

namespace {

constexpr std::array kHopperTiles = {"wgmma:m64n48s3w16", "wgmma:m64n32s4w16"};

bool is_hopper(const Runtime& runtime) {
  return runtime.device(kDevice)->target.name() == "sm_90a";
}

CaseOutcome passes(const Runtime& runtime, const SparseMlaCase& c) {
  CAPTURE(c.text());
  auto outcome = run_case(runtime, kDevice, c);
  REQUIRE_MESSAGE(outcome, (outcome ? "" : outcome.error().text()));
  CHECK_MESSAGE(outcome->passed(), outcome->text());
  return *outcome;
}

/// Cases that the variant has no tile for are passed over; `covered` says how many it has.
void run_contract(const Runtime& runtime, const char* variant, int covered = 45, const std::optional<Tile>& asked = std::nullopt) {
  int ran = 0;
  for (SparseMlaCase c : contract_cases()) {
    c.tile = first_tile(runtime, kDevice, c, variant, asked);
    if (!c.tile) continue;
    ++ran;
    passes(runtime, c);
  }
  CHECK(ran >= covered);
}

SparseMlaCase large(int heads, int group, std::int64_t tokens, std::int64_t rows, std::int64_t topk) {
  SparseMlaCase c;
  c.heads = heads;
  c.group_size = group;
  c.tokens = tokens;
  c.kv_rows = rows;
  c.topk = topk;
  c.statistics = true;
  return c;
}

void same_bits_alone_and_in_company(const Runtime& runtime, const SparseMlaCase& c) {
  const CaseOutcome first = passes(runtime, c);
  const CaseOutcome second = passes(runtime, c);
  CHECK(first.out == second.out);
  SparseMlaPrefillOptions options = options_of(c, kDevice);
  options.deterministic = true;
  auto op = SparseMlaPrefill::create(runtime, options);
  REQUIRE(op);
  const auto inputs = make_inputs(c);
  auto problem = DeviceProblem::create(runtime, kDevice, c, *inputs, {});
  auto stream = runtime.create_stream(kDevice);
  REQUIRE(problem);
  REQUIRE(stream);
  for (const std::int64_t t : {std::int64_t{0}, std::int64_t{7}, c.tokens - 1}) {
    REQUIRE(problem->poison_outputs());
    SparseMlaPrefillArguments alone = problem->arguments;
    alone.lse = alone.max_logits = TensorView{};
    for (TensorView* view : {&alone.q, &alone.indices, &alone.out}) {
      view->data = static_cast<std::byte*>(view->data) + t * view->stride[0] * element_bytes(view->dtype);
      view->shape[0] = 1;
    }
    auto ran = op->run(alone, stream->handle());
    REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().text()));
    REQUIRE(stream->synchronize());
    const auto outputs = problem->download();
    REQUIRE(outputs);
    const auto row = static_cast<std::ptrdiff_t>(t * c.heads * 512);
    CHECK(std::equal(outputs->out.begin() + row, outputs->out.begin() + row + c.heads * 512, first.out.begin() + row));
  }
}

}  // namespace

TEST_CASE("gpu contract: portable, all heads and unions") {
  run_contract(gpu::runtime(), "portable");
}
TEST_CASE("gpu contract: mma, all heads and unions") {
  run_contract(gpu::runtime(), "mma");
}

TEST_CASE("gpu contract: wgmma, all heads and unions that fill its rows") {
  const Runtime runtime = gpu::runtime();
  if (!is_hopper(runtime)) {
    MESSAGE("skipped: not an sm_90a device");
    return;
  }
  for (const char* tile : kHopperTiles) {
    CAPTURE(tile);
    run_contract(runtime, "wgmma", 25, *Tile::parse(tile));
  }
}

TEST_CASE("gpu contract: wgmma, the walk's shape at full K, empty problems, faults") {
  const Runtime runtime = gpu::runtime();
  if (!is_hopper(runtime)) {
    MESSAGE("skipped: not an sm_90a device");
    return;
  }
  for (const char* tile : kHopperTiles) {
    CAPTURE(tile);
    for (const auto& [heads, group] : {std::pair{8, 8}, {16, 4}, {4, 16}, {32, 2}, {64, 0}, {128, 0}}) {
      SparseMlaCase c = large(heads, group, 1027, 4096, 2048);
      c.tile = *Tile::parse(tile);
      c.sink = true;
      passes(runtime, c);
      c.logit_deviation = 6;
      passes(runtime, c);
      for (const auto& [tokens, rows, topk] :
           {std::array<std::int64_t, 3>{0, 96, 40}, {19, 0, 40}, {1, 1, 1}, {17, 1, 4096}, {9, 5000, 1}}) {
        SparseMlaCase edge = large(heads, group, tokens, rows, topk);
        edge.tile = c.tile;
        edge.sink = true;
        passes(runtime, edge);
      }
    }
    SparseMlaCase c = large(8, 8, 35, 4096, 2048);
    c.tile = *Tile::parse(tile);
    CHECK(run_mutated_union(runtime, kDevice, c, Mutation::none)->passed());
    for (const Mutation mutation :
         {Mutation::row_doubled, Mutation::row_dropped, Mutation::mask_bit_flipped, Mutation::tail_skipped, Mutation::union_end_skipped}) {
      CAPTURE(to_string(mutation));
      CHECK_FALSE(run_mutated_union(runtime, kDevice, c, mutation)->passed());
    }
  }
}

TEST_CASE("gpu contract: wgmma_keys, all heads one token at a time") {
  const Runtime runtime = gpu::runtime();
  if (!is_hopper(runtime)) {
    MESSAGE("skipped: not an sm_90a device");
    return;
  }
  run_contract(runtime, "wgmma_keys", 9);
}

TEST_CASE("gpu contract: wgmma_keys, every tile at full K, empty problems, borders of tiles") {
  const Runtime runtime = gpu::runtime();
  if (!is_hopper(runtime)) {
    MESSAGE("skipped: not an sm_90a device");
    return;
  }
  // Heads that fill a tile's columns and heads that do not; beyond 32 there are several tiles of them.
  for (const auto& [heads, d_qk, text] : {std::tuple{1, 576, "wgmma_keys:m8n64s3w8"},
                                          {3, 576, "wgmma_keys:m8n64s3w8"},
                                          {8, 576, "wgmma_keys:m8n64s3w8"},
                                          {8, 512, "wgmma_keys:m8n64s3w8"},
                                          {8, 576, "wgmma_keys:m8n64s2w8"},
                                          {9, 576, "wgmma_keys:m16n64s2w8"},
                                          {16, 576, "wgmma_keys:m16n64s2w8"},
                                          {16, 512, "wgmma_keys:m16n64s3w8"},
                                          {17, 576, "wgmma_keys:m32n64s2w8"},
                                          {32, 576, "wgmma_keys:m32n64s2w8"},
                                          {32, 512, "wgmma_keys:m32n64s2w8"},
                                          {45, 576, "wgmma_keys:m32n64s2w8"}}) {
    SparseMlaCase c = large(heads, 0, 1027, 4096, 2048);
    c.d_qk = d_qk;
    c.tile = *Tile::parse(text);
    c.sink = true;
    passes(runtime, c);
    c.logit_deviation = 6;  // references move late, too
    c.planted = true;
    passes(runtime, c);
    c.topk = 333;
    c.holes = c.topk_length = c.poison = c.strided = true;
    passes(runtime, c);
    for (const auto& [tokens, rows, topk] : {std::array<std::int64_t, 3>{0, 96, 40},
                                             {19, 0, 40},
                                             {1, 1, 1},
                                             {17, 1, 4096},
                                             {9, 5000, 1},
                                             {300, 96, 63},
                                             {300, 96, 64},
                                             {300, 96, 65},
                                             {300, 500, 128},
                                             {300, 500, 129}}) {
      SparseMlaCase edge = large(heads, 0, tokens, rows, topk);
      edge.d_qk = d_qk;
      edge.tile = c.tile;
      edge.sink = true;
      passes(runtime, edge);
      edge.holes = true;  // tokens without a key between others
      passes(runtime, edge);
    }
  }
}

TEST_CASE("gpu contract: every tile of the fall-back order") {
  const Runtime runtime = gpu::runtime();
  for (const int group : {0, 8, 16}) {
    SparseMlaCase c;
    c.group_size = group;
    c.statistics = c.sink = c.holes = c.poison = c.topk_length = true;
    c.topk = 101;
    c.kv_rows = 300;
    c.tokens = 45;
    for (const Tile& tile : fitting_tiles(runtime, kDevice, c)) {
      c.tile = tile;
      passes(runtime, c);
    }
  }
}

TEST_CASE("gpu contract: tiles of devices with 163 and 99 KB, proven on this one") {
  for (const unsigned kib : {163U, 99U}) {
    RuntimeOptions options;
    options.shared_memory_limit = kibibytes(kib);
    const Runtime runtime = gpu::runtime(options);
    for (const int group : {0, 2, 8}) {
      SparseMlaCase c;
      c.group_size = group;
      c.statistics = true;
      const CaseOutcome outcome = passes(runtime, c);
      MESSAGE(kib << " KB, G = " << group << ": " << outcome.reports.back().tile_fitted.text());
    }
  }
}

TEST_CASE("gpu contract: the planted faults turn the check red") {
  const Runtime runtime = gpu::runtime();
  for (const std::int64_t topk : {60, 2048}) {
    SparseMlaCase c;
    c.tokens = 35;
    c.topk = topk;
    c.kv_rows = 2 * topk;
    c.statistics = true;
    auto sound = run_mutated_union(runtime, kDevice, c, Mutation::none);
    REQUIRE_MESSAGE(sound, (sound ? "" : sound.error().text()));
    CHECK_MESSAGE(sound->passed(), sound->text());
    for (const Mutation mutation :
         {Mutation::row_doubled, Mutation::row_dropped, Mutation::mask_bit_flipped, Mutation::tail_skipped, Mutation::union_end_skipped}) {
      CAPTURE(to_string(mutation));
      CAPTURE(topk);
      auto faulty = run_mutated_union(runtime, kDevice, c, mutation);
      REQUIRE(faulty);
      CHECK_FALSE(faulty->passed());
    }
  }
}

TEST_CASE("gpu contract: the walk's shape at full K, each union") {
  const Runtime runtime = gpu::runtime();
  for (const int group : {0, 2, 4, 8, 16}) {
    SparseMlaCase c = large(8, group, 2051, 4096, 2048);
    c.sink = true;
    passes(runtime, c);
    c.logit_deviation = 6;
    c.planted = true;
    passes(runtime, c);
  }
  passes(runtime, large(128, 0, 130, 4096, 2048));
  passes(runtime, large(128, 16, 130, 4096, 2048));
  passes(runtime, large(3, 4, 130, 70'000, 4096));
}

TEST_CASE("gpu contract: spans of several windows") {
  const Runtime runtime = gpu::runtime();
  // 32,768 rows are the most that union_build gets, 1,048,576 a window of union_build_wide.
  for (const std::int64_t rows : {32'768, 32'769, 65'536, 65'537, 131'072, 1'000'000, 1'100'000}) {
    for (const int group : {2, 8, 16}) {
      SparseMlaCase c = large(8, group, 67, rows, 1000);
      c.holes = c.topk_length = true;
      passes(runtime, c);
    }
  }
}

TEST_CASE("gpu contract: a workspace limit runs in chunks and gives the same bits") {
  const Runtime runtime = gpu::runtime();
  SparseMlaCase c = large(8, 8, 1003, 2000, 500);
  const CaseOutcome whole = passes(runtime, c);
  SparseMlaPrefillOptions options = options_of(c, kDevice);
  options.workspace_limit = kibibytes(100);
  auto op = SparseMlaPrefill::create(runtime, options);
  REQUIRE_MESSAGE(op, (op ? "" : op.error().text()));
  CHECK(op->launch_shapes(c.tokens, c.topk, c.kv_rows).size() > 4);
  const auto inputs = make_inputs(c);
  auto problem = DeviceProblem::create(runtime, kDevice, c, *inputs, op->workspace_bytes(c.tokens, c.kv_rows));
  REQUIRE(problem);
  auto stream = runtime.create_stream(kDevice);
  REQUIRE(stream);
  REQUIRE(op->run(problem->arguments, stream->handle()));
  REQUIRE(stream->synchronize());
  const auto outputs = problem->download();
  REQUIRE(outputs);
  CHECK(outputs->out == whole.out);
}

TEST_CASE("gpu contract: per token, the same bits in every run, alone and in company") {
  const Runtime runtime = gpu::runtime();
  for (const int heads : {8, 12, 20}) {
    SparseMlaCase c = large(heads, 0, 200, 3000, 700);
    for (const Tile& tile : fitting_tiles(runtime, kDevice, c)) {
      if (tile.variant == "portable") continue;  // its rows know nothing of each other
      c.tile = tile;
      same_bits_alone_and_in_company(runtime, c);
    }
  }
}

TEST_CASE("gpu contract: per token, the same bits with a fixed share of the tokens and with tokens taken one by one") {
  const Runtime runtime = gpu::runtime();
  SparseMlaCase c = large(8, 0, 3001, 2000, 300);
  c.holes = true;
  auto op = SparseMlaPrefill::create(runtime, options_of(c, kDevice));
  REQUIRE_MESSAGE(op, (op ? "" : op.error().text()));
  const auto inputs = make_inputs(c);
  const Bytes workspace = op->workspace_bytes(c.tokens, c.kv_rows);
  CHECK((workspace.count > 0) == is_hopper(runtime));
  CHECK(op->workspace_bytes(10, c.kv_rows).count == 0);
  auto problem = DeviceProblem::create(runtime, kDevice, c, *inputs, workspace);
  auto stream = runtime.create_stream(kDevice);
  REQUIRE(problem);
  REQUIRE(stream);
  std::vector<DeviceProblem::Outputs> runs;
  void* const given = problem->arguments.workspace;
  for (void* const own : {given, static_cast<void*>(nullptr), given}) {
    problem->arguments.workspace = own;
    REQUIRE(problem->poison_outputs());
    REQUIRE(op->run(problem->arguments, stream->handle()));
    REQUIRE(stream->synchronize());
    auto outputs = problem->download();
    REQUIRE(outputs);
    const auto check = judge(c, *inputs, *outputs);
    CHECK_MESSAGE(check.passed, check.first_failure);
    runs.push_back(std::move(*outputs));
  }
  for (const DeviceProblem::Outputs& run : runs) {
    CHECK(run.out == runs.front().out);
    CHECK(run.lse == runs.front().lse);
  }
}

TEST_CASE("gpu contract: empty problems and single rows") {
  const Runtime runtime = gpu::runtime();
  for (const int group : {0, 8}) {
    SparseMlaCase c;
    c.group_size = group;
    c.statistics = c.sink = true;
    for (const auto& [tokens, rows, topk] : {std::array<std::int64_t, 3>{0, 96, 40}, {19, 0, 40}, {1, 1, 1}, {17, 1, 4096}, {9, 5000, 1}}) {
      c.tokens = tokens;
      c.kv_rows = rows;
      c.topk = topk;
      passes(runtime, c);
    }
  }
}

// 2^31 elements of q and of kv: addresses of 32 bits would wrap.
TEST_CASE("gpu contract large: addresses past 2^31 elements") {
  const Runtime runtime = gpu::runtime();
  SparseMlaCase many_tokens = large(64, 0, 60'000, 500, 20);
  passes(runtime, many_tokens);
  SparseMlaCase many_rows = large(8, 8, 65, 3'900'000, 300);
  passes(runtime, many_rows);
}
