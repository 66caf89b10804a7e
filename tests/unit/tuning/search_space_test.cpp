// The space that a manifest makes, and what plans rule out of it.
#include "search/search_space.hpp"

#include <doctest/doctest.h>

#include "cases/scale_template.hpp"
#include "kernwright/runtime.hpp"

using namespace kernwright;

namespace {

constexpr std::string_view kManifest = R"(format = 1
name = "test/space"
entry = "test_space"
plan = "test/space_plan.cuh"
fall_back = ["wide:m4n8s1w2", "plain:m1n8s1w1", "plain:m1n4s1w1"]
[[variant]]
name = "plain"
source = "test/plain.cu"
minimum_capability = "8.0"
host = true
block_m = [1]
block_n = [4, 8]
stages = [1, 2]
warps = [1]
[[variant]]
name = "wide"
source = "test/wide.cu"
minimum_capability = "9.0"
targets = ["sm_90a"]
host = false
block_m = [4]
block_n = [8]
stages = [1]
warps = [2]
)";

Manifest manifest() {
  auto parsed = parse_manifest(kManifest, "space.toml");
  REQUIRE_MESSAGE(parsed, (parsed ? "" : parsed.error().text()));
  return *parsed;
}

std::string texts(const std::vector<Tile>& tiles) {
  std::string line;
  for (const Tile& tile : tiles) line += tile.text() + " ";
  return line;
}

Plan plan(int threads, int shared) {
  Plan made;
  made.version = Plan::kVersion;
  made.threads = threads;
  made.dynamic_shared = shared;
  return made;
}

}  // namespace

TEST_CASE("tuning: a space holds every tile of the axes that the target is offered, the last axis fastest") {
  CHECK(texts(tuning::offered_tiles(manifest(), Target::host())) == "plain:m1n4s1w1 plain:m1n4s2w1 plain:m1n8s1w1 plain:m1n8s2w1 ");
  CHECK(texts(tuning::offered_tiles(manifest(), *Target::parse("sm_90a"))) ==
        "plain:m1n4s1w1 plain:m1n4s2w1 plain:m1n8s1w1 plain:m1n8s2w1 wide:m4n8s1w2 ");
  CHECK(texts(tuning::offered_tiles(manifest(), *Target::parse("sm_100a"))) ==
        "plain:m1n4s1w1 plain:m1n4s2w1 plain:m1n8s1w1 plain:m1n8s2w1 ");
}

TEST_CASE("tuning: plans rule out what is not legal and what no block can have, and each is counted") {
  const std::vector<Tile> tiles = tuning::offered_tiles(manifest(), *Target::parse("sm_90a"));
  const std::vector<Plan> plans{plan(32, 1000), plan(0, 10), plan(32, 1001), plan(2048, 10), plan(64, 0)};
  const tuning::SearchSpace space = tuning::prune(tiles, plans, {"a device", Bytes{1000}, 1024});
  CHECK(space.offered == 5);
  CHECK(space.illegal == 1);
  CHECK(space.over_limits == 2);
  REQUIRE(space.points.size() == 2);
  CHECK(space.points[0].tile.text() == "plain:m1n4s1w1");
  CHECK(space.points[1].tile.text() == "wide:m4n8s1w2");
  CHECK(space.points[1].plan.threads == 64);
  CHECK(space.last_over_limit == "plain:m1n8s2w1 needs 2048 threads a block, a device offers 1024");
  CHECK(space.place_of(*Tile::parse("wide:m4n8s1w2")) == 1);
  CHECK(space.place_of(*Tile::parse("plain:m1n8s1w1")) == 2);

  // The default is the first of the fall-back order that is left.
  CHECK(tuning::default_tile(space, manifest(), *Target::parse("sm_90a"))->text() == "wide:m4n8s1w2");
  CHECK(tuning::default_tile(space, manifest(), Target::host())->text() == "plain:m1n4s1w1");
  const auto none = tuning::default_tile(tuning::prune({}, {}, {}), manifest(), Target::host());
  REQUIRE_FALSE(none);
  CHECK(none.error().code == ErrorCode::unsupported);
}

TEST_CASE("tuning: the plans of a real template, without compiling a kernel") {
  RuntimeOptions options;
  options.memory_only = true;
  const auto runtime = Runtime::create(options);
  REQUIRE(runtime);
  REQUIRE(runtime->register_template(cases::scale_template()));
  const auto specialised = specialise(runtime->state(), "test/scale", Specialisation().set("factor", 3));
  REQUIRE(specialised);
  const auto space = tuning::search_space(runtime->state(), *specialised, *runtime->device(DeviceId::host()));
  REQUIRE_MESSAGE(space, (space ? "" : space.error().text()));
  // block_n is the shared memory in KiB: 1, 40 and 200 of them fit the interpreter's 227, 1024 do not; each with one and two warps.
  CHECK(space->offered == 8);
  CHECK(space->illegal == 0);
  CHECK(space->over_limits == 2);
  CHECK(space->points.size() == 6);
  CHECK(space->points[3].tile.text() == "plain:m1n40s1w2");
  CHECK(space->points[3].plan.dynamic_shared == 40 * 1024);
  CHECK(runtime->counters().compiles == 1);
}
