// Every template through NVRTC for every target, judged by the compiler's own report. Needs NVRTC and no GPU.
#include <doctest/doctest.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernwright/runtime.hpp"

using namespace kernwright;

namespace {

constexpr int kHeads = 8;
constexpr std::array kGroupSizes = {1, 2, 4, 8, 16};
constexpr const char* kPrefill = "sparse_mla/prefill";
constexpr const char* kUnionBuild = "sparse_mla/union_build";
constexpr const char* kUnionBuildWide = "sparse_mla/union_build_wide";
constexpr const char* kBlockTable = "paged_kv/block_table";
constexpr const char* kDecode = "paged_mla/decode";
constexpr const char* kCombine = "paged_mla/combine";

Runtime make_runtime() {
  RuntimeOptions options;
  options.memory_only = true;  // a stored artifact has no report of this compile
  auto runtime = Runtime::create(options);
  REQUIRE_MESSAGE(runtime, (runtime ? "" : runtime.error().text()));
  return *runtime;
}

/// Without NVRTC there is nothing to judge: said, not failed. Every other error fails.
bool compiler_present() {
  const Runtime runtime = make_runtime();
  WarmRequest request{kUnionBuild, Specialisation{}.set("group_size", 2), *Target::parse("sm_80"), std::nullopt, false};
  const auto items = runtime.warm(request);
  if (items) return true;
  if (items.error().code != ErrorCode::compiler_unavailable) FAIL(items.error().text());
  MESSAGE("skipped, no compiler: " << items.error().text());
  return false;
}

std::optional<Tile> tile(std::string_view text) {
  if (text.empty()) return std::nullopt;
  auto parsed = Tile::parse(text);
  REQUIRE_MESSAGE(parsed, text);
  return *parsed;
}

Specialisation prefill(int group_size, int d_qk = 576) {
  return Specialisation{}.set("heads", kHeads).set("group_size", group_size).set("d_qk", d_qk);
}

/// What a device of the target would run first: the tile asked for (empty: the default), or the first of its fall-backs that is within the
/// target's limits.
WarmedItem first_built(const Runtime& runtime, const char* name, const Specialisation& specialisation, const Target& target,
                       std::string_view asked) {
  const auto items = runtime.warm(WarmRequest{name, specialisation, target, tile(asked), false});
  REQUIRE_MESSAGE(items, (items ? "" : items.error().text()));
  REQUIRE_FALSE(items->empty());
  const WarmedItem& built = items->back();
  REQUIRE_MESSAGE(built.outcome != WarmOutcome::skipped, built.reason);
  return built;
}

void check_no_spills(const WarmedItem& item, const Specialisation& specialisation, const Target& target) {
  INFO(item.tile.text(), " of ", specialisation.text(), " on ", target.name(), ": ", item.resources.registers, " registers");
  REQUIRE_MESSAGE(item.outcome != WarmOutcome::failed, item.reason);
  CHECK(item.cache != CacheSource::store);  // the report is this compiler's own
  CHECK(item.resources.registers >= 16);    // a report was read: no such kernel gets by with fewer
  CHECK(item.resources.registers * item.plan.threads <= 65536);
  CHECK(item.resources.stack_frame.count == 0);
  CHECK(item.resources.spill_stores.count == 0);
  CHECK(item.resources.spill_loads.count == 0);
  CHECK(item.resources.static_shared.count == 0);
  CHECK(item.plan.dynamic_shared <= target.shared_memory_bytes());
}

void check_target(const char* name) {
  const Runtime runtime = make_runtime();
  if (!compiler_present()) return;
  const Target target = *Target::parse(name);
  const auto check = [&](const char* template_name, const Specialisation& specialisation, std::string_view asked) {
    const WarmedItem item = first_built(runtime, template_name, specialisation, target, asked);
    if (!asked.empty()) CHECK(item.tile.text() == asked);
    check_no_spills(item, specialisation, target);
  };
  for (const int group_size : kGroupSizes) {
    check(kPrefill, prefill(group_size), "");
    if (group_size == 1) continue;
    check(kUnionBuild, Specialisation{}.set("group_size", group_size), "");
    check(kUnionBuildWide, Specialisation{}.set("group_size", group_size), "");
  }
  check(kPrefill, prefill(8, 512), "");
  check(kPrefill, prefill(1), "portable:m16n16s1w4");
  check(kPrefill, prefill(8), "portable:m16n16s1w4");
  check(kPrefill, prefill(16), "mma:m16n32s1w4");
  check(kDecode, Specialisation{}.set("heads", 32).set("query_tokens", 2), "");
  check(kDecode, Specialisation{}.set("heads", 16), "");
  check(kCombine, {}, "");
  check(kBlockTable, Specialisation{}.set("page_size", 64), "");
  if (target.name() == "sm_90a") {
    check(kUnionBuildWide, Specialisation{}.set("group_size", 8), "portable:m16n1024s1w32");
    for (const char* tile : {"wgmma:m64n48s3w16", "wgmma:m64n32s4w16"}) {
      for (const int d_qk : {512, 576}) check(kPrefill, prefill(8, d_qk), tile);
      check(kPrefill, prefill(1).set("heads", 64), tile);  // rows of one token
      check(kPrefill, prefill(8).set("heads", 40), tile);  // several head tiles
      check(kDecode, Specialisation{}.set("heads", 128), tile);
      check(kDecode, Specialisation{}.set("heads", 9).set("query_tokens", 8), tile);
    }
    for (const int d_qk : {512, 576}) {
      check(kPrefill, prefill(1, d_qk), "wgmma_keys:m8n64s3w8");
      check(kPrefill, prefill(1, d_qk).set("heads", 16), "wgmma_keys:m16n64s2w8");
      for (const int heads : {17, 32, 128}) check(kPrefill, prefill(1, d_qk).set("heads", heads), "wgmma_keys:m32n64s2w8");
    }
    check(kPrefill, prefill(1, 512).set("heads", 16), "wgmma_keys:m16n64s3w8");
    check(kPrefill, prefill(1), "mma:m16n32s2w4");
  }
}

}  // namespace

// One case a target, so that they run side by side.
TEST_CASE("template compile: no spills on sm_80") {
  check_target("sm_80");
}
TEST_CASE("template compile: no spills on sm_86") {
  check_target("sm_86");
}
TEST_CASE("template compile: no spills on sm_89") {
  check_target("sm_89");
}
TEST_CASE("template compile: no spills on sm_90a") {
  check_target("sm_90a");
}
TEST_CASE("template compile: no spills on sm_100a") {
  check_target("sm_100a");
}
TEST_CASE("template compile: no spills on sm_103a") {
  check_target("sm_103a");
}
TEST_CASE("template compile: no spills on sm_110a") {
  check_target("sm_110a");
}
TEST_CASE("template compile: no spills on sm_120a") {
  check_target("sm_120a");
}
TEST_CASE("template compile: no spills on sm_121a") {
  check_target("sm_121a");
}

TEST_CASE("template compile: the whole fall-back order builds, and its last tile needs no opt-in shared memory") {
  constexpr int kSharedWithoutOptIn = 48 * 1024;
  const Runtime runtime = make_runtime();
  if (!compiler_present()) return;
  const Target target = *Target::parse("sm_90a");
  for (const int group_size : {1, 8}) {
    const auto items = runtime.warm(WarmRequest{kPrefill, prefill(group_size), target, std::nullopt, true});
    REQUIRE_MESSAGE(items, (items ? "" : items.error().text()));
    REQUIRE(items->size() > 2);
    for (const WarmedItem& item : *items) {
      REQUIRE_MESSAGE(item.outcome != WarmOutcome::skipped, item.tile.text() << ": " << item.reason);
      check_no_spills(item, prefill(group_size), target);
    }
    CHECK(items->front().tile.variant == (group_size == 8 ? "wgmma" : "wgmma_keys"));
    CHECK(items->back().tile.variant == "portable");
    CHECK(items->back().plan.dynamic_shared <= kSharedWithoutOptIn);
  }
}

TEST_CASE("template compile: wgmma_keys takes one token at a time, in the fewest columns that hold its heads") {
  const Runtime runtime = make_runtime();
  if (!compiler_present()) return;
  struct Asked {
    int heads, group_size, d_qk;
    const char* tile;
    const char* target;
  };
  for (const Asked& asked : {Asked{8, 1, 576, "wgmma_keys:m16n64s2w8", "sm_90a"}, Asked{9, 1, 576, "wgmma_keys:m8n64s3w8", "sm_90a"},
                             Asked{16, 1, 576, "wgmma_keys:m32n64s2w8", "sm_90a"}, Asked{17, 1, 576, "wgmma_keys:m16n64s2w8", "sm_90a"},
                             Asked{33, 1, 576, "wgmma_keys:m16n64s2w8", "sm_90a"}, Asked{4, 2, 576, "wgmma_keys:m8n64s3w8", "sm_90a"},
                             Asked{8, 1, 576, "wgmma_keys:m8n64s3w8", "sm_100a"},
                             // More shared memory than a block can have.
                             Asked{16, 1, 576, "wgmma_keys:m16n64s3w8", "sm_90a"}, Asked{32, 1, 512, "wgmma_keys:m32n64s3w8", "sm_90a"}}) {
    CAPTURE(asked.tile);
    CAPTURE(asked.heads);
    const Specialisation specialisation = prefill(asked.group_size, asked.d_qk).set("heads", asked.heads);
    const auto items = runtime.warm(WarmRequest{kPrefill, specialisation, *Target::parse(asked.target), tile(asked.tile), false});
    REQUIRE_FALSE(items);
    CHECK(items.error().text().find(std::string(asked.tile) + " is not legal") != std::string::npos);
  }
}

TEST_CASE("template compile: the whole fall-back order of paged MLA decode builds without spills") {
  const Runtime runtime = make_runtime();
  if (!compiler_present()) return;
  const Specialisation specialisation = Specialisation{}.set("heads", 16).set("query_tokens", 4);  // 64 rows: every tile is legal
  const Target target = *Target::parse("sm_90a");
  const auto items = runtime.warm(WarmRequest{kDecode, specialisation, target, std::nullopt, true});
  REQUIRE_MESSAGE(items, (items ? "" : items.error().text()));
  CHECK(items->size() == 11);
  for (const WarmedItem& item : *items) {
    check_no_spills(item, specialisation, target);
    // So many blocks are resident at once.
    CHECK(item.plan.blocks_per_sm * item.plan.threads * item.resources.registers <= 65536);
  }
}

// The checks above rest on the report being read: here is a kernel that cannot but spill.
TEST_CASE("template compile: a kernel that spills is reported as one") {
  constexpr const char* kManifest = R"(format = 1
name = "test/spill"
entry = "spill"
plan = "test/spill_plan.cuh"
fall_back = ["plain:m1n1s1w32"]
[[parameter]]
name = "unused"
type = "int"
values = [1]
[[variant]]
name = "plain"
source = "test/spill.cu"
minimum_capability = "8.0"
block_m = [1]
block_n = [1]
stages = [1]
warps = [32]
)";
  constexpr const char* kPlan = R"(#pragma once
#include "kernwright/specialisation.cuh"
struct SpillParams { float* data; };
namespace kw {
constexpr Plan make_plan(const Specialisation&, const Tile& tile) {
  Plan plan;
  plan.threads = tile.warps * 32;
  plan.rows_per_block = 1;
  plan.params_bytes = static_cast<int>(sizeof(SpillParams));
  return plan;
}
}
)";
  // 96 values live at once where a block of 1,024 threads leaves each 64 registers.
  constexpr const char* kSource = R"(#include "kernwright/specialisation.cuh"
#include "test/spill_plan.cuh"
extern "C" __global__ void __launch_bounds__(1024) spill(const __grid_constant__ SpillParams params) {
  if (params.data == nullptr) return;
  volatile float* data = params.data;
  float values[96];
#pragma unroll
  for (int i = 0; i < 96; ++i) values[i] = data[i * 1024 + threadIdx.x];
#pragma unroll
  for (int i = 0; i < 96; ++i) data[i * 1024 + threadIdx.x] = values[95 - i];
}
extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
)";
  const Runtime runtime = make_runtime();
  if (!compiler_present()) return;
  const auto registered =
      runtime.register_template(TemplateSource{kManifest, {{"test/spill_plan.cuh", kPlan}, {"test/spill.cu", kSource}}});
  REQUIRE_MESSAGE(registered, (registered ? "" : registered.error().text()));
  const WarmedItem item = first_built(runtime, "test/spill", Specialisation{}.set("unused", 1), *Target::parse("sm_90a"), "");
  REQUIRE_MESSAGE(item.outcome != WarmOutcome::failed, item.reason);
  CHECK(item.resources.spill_stores.count > 0);
  CHECK(item.resources.spill_loads.count > 0);
}
