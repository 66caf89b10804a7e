#include "tuning/tuning_table.hpp"

#include <doctest/doctest.h>

#include <optional>

#include "tuning/tuning_tables.hpp"

using namespace kernwright;

namespace {

constexpr std::string_view kTable = R"(format = 1
[[tile]]
template = "demo/scale"
target = "default"
tile = "mma:m16n16s1w4"
[[tile]]
template = "demo/scale"
when = { heads = 8 }
target = "default"
tile = "mma:m16n32s1w4"
[[tile]]
template = "demo/scale"
target = "sm_90a"
tile = "mma:m32n32s1w4"
measured = "H200, 2026-04-01"
[[tile]]
template = "demo/scale"
when = { heads = 8, dtype = "bf16" }
target = "sm_90a"
tile = "mma:m64n32s1w4"
measured = "H200, 2026-04-01"
[[tile]]
template = "demo/scale"
target = "sm_90a"
device = "NVIDIA H200"
tile = "mma:m64n64s1w4"
measured = "H200, 2026-04-01"
[[tile]]
template = "demo/scale"
when = { heads = 8, dtype = "bf16", d_qk = 576 }
target = "default"
tile = "mma:m256n32s1w4"
[[preference]]
template = "demo/scale"
when = { heads = 8 }
target = "default"
parameter = "group_size"
value = 8
[[preference]]
template = "demo/scale"
target = "default"
parameter = "group_size"
value = 4
measured = "somewhere"
)";

DeviceInfo device(const char* target, const char* name) {
  DeviceInfo info;
  info.target = *Target::parse(target);
  info.name = name;
  return info;
}

TuningTables tables() {
  TuningTables read;
  const auto added = read.add(kTable, "t.toml", TableOwner::kernwright);
  REQUIRE_MESSAGE(added, (added ? "" : added.error().text()));
  return read;
}

/// The best row that holds.
template <class Row>
std::optional<TuningTables::Match<Row>> best(const std::vector<TuningTables::Match<Row>>& matches) {
  for (const auto& match : matches) {
    if (!match.stale) return match;
  }
  return std::nullopt;
}
std::optional<TuningTables::Match<TuningRow>> tile_of(const TuningTables& read, const TuningTables::Query& query) {
  return best(read.tiles(query));
}
std::optional<PreferenceRow> preference_of(const TuningTables& read, const TuningTables::Query& query, std::string_view parameter) {
  const auto match = best(read.preferences(query, parameter));
  return match ? std::optional(match->row) : std::nullopt;
}

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("tuning: device wins over target over default, then the row that names most parameters") {
  const TuningTables read = tables();
  const auto eight = Specialisation().set("heads", 8).set("dtype", DType::bf16).set("d_qk", 576);
  const auto sixteen = Specialisation().set("heads", 16).set("dtype", DType::bf16);
  const auto chosen = [&](const Specialisation& s, const DeviceInfo& d) {
    const auto match = tile_of(read, {"demo/scale", s, d, {}});
    REQUIRE(match);
    return match->row.tile.text() + " " + match->source() + (match->row.measured.empty() ? "" : " measured");
  };
  CHECK(chosen(eight, device("sm_90a", "NVIDIA H200")) == "mma:m64n64s1w4 t.toml (device) measured");
  CHECK(chosen(eight, device("sm_90a", "NVIDIA H100")) == "mma:m64n32s1w4 t.toml (target) measured");
  CHECK(chosen(sixteen, device("sm_90a", "NVIDIA H100")) == "mma:m32n32s1w4 t.toml (target) measured");
  CHECK(chosen(Specialisation().set("heads", 8).set("dtype", DType::f16), device("sm_90a", "NVIDIA H100")) ==
        "mma:m32n32s1w4 t.toml (target) measured");
  CHECK(chosen(eight, device("sm_90", "NVIDIA H200")) == "mma:m256n32s1w4 t.toml (default)");  // the target's suffix counts
  CHECK(chosen(Specialisation().set("heads", 8), device("host", "host")) == "mma:m16n32s1w4 t.toml (default)");
  CHECK(chosen(sixteen, device("host", "host")) == "mma:m16n16s1w4 t.toml (default)");
  CHECK_FALSE(tile_of(read, {"demo/other", eight, device("host", "host"), {}}));
  CHECK_FALSE(tile_of(TuningTables(), {"demo/scale", eight, device("host", "host"), {}}));
}

TEST_CASE("tuning: earlier tables win where rows match equally well") {
  constexpr std::string_view kRow = "format = 1\n[[tile]]\ntemplate = \"demo/scale\"\ntarget = \"default\"\ntile = \"mma:m128n16s1w4\"\n";
  TuningTables read;
  REQUIRE(read.add(kRow, "first.toml", TableOwner::kernwright));
  REQUIRE(read.add(kTable, "t.toml", TableOwner::kernwright));
  CHECK(tile_of(read, {"demo/scale", Specialisation().set("heads", 1), device("sm_80", "x"), {}})->source() == "first.toml (default)");
  CHECK(tile_of(read, {"demo/scale", Specialisation().set("heads", 8), device("sm_80", "x"), {}})->source() == "t.toml (default)");
}

TEST_CASE("tuning: a user's row wins over ours, however closely ours names the device, and whichever is read first") {
  constexpr std::string_view kUser = R"(format = 1
[[tile]]
template = "demo/scale"
target = "sm_90a"
tile = "mma:m128n16s1w4"
[[tile]]
template = "demo/scale"
when = { heads = 16 }
target = "default"
tile = "mma:m128n32s1w4"
[[tile]]
template = "demo/scale"
when = { heads = 32 }
target = "sm_90a"
device = "NVIDIA H200"
digest = "old"
tile = "mma:m128n64s1w4"
[[preference]]
template = "demo/scale"
target = "default"
parameter = "group_size"
value = 2
)";
  for (const bool user_first : {true, false}) {
    TuningTables read;
    if (user_first) REQUIRE(read.add(kUser, "user.toml", TableOwner::user));
    REQUIRE(read.add(kTable, "t.toml", TableOwner::kernwright));
    if (!user_first) REQUIRE(read.add(kUser, "user.toml", TableOwner::user));
    const auto h200 = device("sm_90a", "NVIDIA H200");
    const auto of = [&](int heads, std::string_view digest) {
      const auto match = tile_of(read, {"demo/scale", Specialisation().set("heads", heads), h200, digest});
      REQUIRE(match);
      return match->row.tile.text() + " " + match->source();
    };
    // Ours has a row for the device itself; the user's is for the target.
    CHECK(of(8, {}) == "mma:m128n16s1w4 user.toml (target)");
    CHECK(of(16, {}) == "mma:m128n16s1w4 user.toml (target)");  // among a user's own rows the closest, as ever
    // A stale row of a user's is passed over for the user's next.
    CHECK(of(32, "old") == "mma:m128n64s1w4 user.toml (device)");
    CHECK(of(32, "new") == "mma:m128n16s1w4 user.toml (target)");
    CHECK(preference_of(read, {"demo/scale", Specialisation().set("heads", 8), h200, {}}, "group_size")->value == 2);
    // Where the user says nothing, ours.
    const auto a100 = device("sm_80", "x");
    CHECK(tile_of(read, {"demo/scale", Specialisation().set("heads", 8), a100, {}})->source() == "t.toml (default)");
  }
}

TEST_CASE("tuning: a preference of a parameter") {
  const TuningTables read = tables();
  const auto any = device("sm_80", "x");
  const Specialisation none;
  CHECK(preference_of(read, {"demo/scale", Specialisation().set("heads", 8), any, {}}, "group_size")->value == 8);
  CHECK(preference_of(read, {"demo/scale", Specialisation().set("heads", 9), any, {}}, "group_size")->value == 4);
  CHECK(preference_of(read, {"demo/scale", none, any, {}}, "group_size")->measured == "somewhere");
  CHECK_FALSE(preference_of(read, {"demo/scale", none, any, {}}, "heads"));
}

TEST_CASE("tuning: a row for other sources does not count, and is named where it would have decided") {
  constexpr std::string_view kDated = R"(format = 1
[[tile]]
template = "demo/scale"
target = "sm_90a"
device = "NVIDIA H200"
tile = "mma:m64n64s1w4"
digest = "aaaa"
[[tile]]
template = "demo/scale"
target = "sm_90a"
tile = "mma:m32n32s1w4"
digest = "bbbb"
[[preference]]
template = "demo/scale"
target = "default"
parameter = "group_size"
value = 8
digest = "aaaa"
)";
  TuningTables read;
  REQUIRE(read.add(kDated, "dated.toml", TableOwner::user));
  const auto eight = Specialisation().set("heads", 8);
  const auto h200 = device("sm_90a", "NVIDIA H200"), other = device("sm_90a", "NVIDIA H100");
  const auto tile = [&](const DeviceInfo& d, std::string_view digest) {
    const auto match = tile_of(read, {"demo/scale", eight, d, digest});
    return match ? match->row.tile.text() : "none";
  };
  /// The table of the best row of all, where that one is stale.
  const auto stale = [&](const auto& matches) { return matches.empty() || !matches.front().stale ? std::string() : matches.front().table; };
  const auto stale_tile = [&](const DeviceInfo& d, std::string_view digest) { return stale(read.tiles({"demo/scale", eight, d, digest})); };
  CHECK(tile(h200, "aaaa") == "mma:m64n64s1w4");
  CHECK(stale_tile(h200, "aaaa").empty());
  CHECK(tile(h200, "bbbb") == "mma:m32n32s1w4");  // the next best that holds
  CHECK(stale_tile(h200, "bbbb") == "dated.toml");
  CHECK(tile(h200, "cccc") == "none");
  CHECK(tile(other, "bbbb") == "mma:m32n32s1w4");
  CHECK(stale_tile(other, "bbbb").empty());  // the row that is stale for nobody here is not spoken of
  CHECK(tile(h200, "") == "mma:m64n64s1w4");
  CHECK(preference_of(read, {"demo/scale", eight, other, "aaaa"}, "group_size")->value == 8);
  CHECK_FALSE(preference_of(read, {"demo/scale", eight, other, "bbbb"}, "group_size"));
  CHECK(stale(read.preferences({"demo/scale", eight, other, "bbbb"}, "group_size")) == "dated.toml");
  CHECK(read.preferences({"demo/scale", eight, other, "bbbb"}, "heads").empty());
  // Of what a table's rows for a template come to.
  CHECK(read.count("dated.toml", "demo/scale", "aaaa").rows == 3);
  CHECK(read.count("dated.toml", "demo/scale", "aaaa").stale == 1);
  CHECK(read.count("dated.toml", "demo/scale", "cccc").stale == 3);
  CHECK(read.count("dated.toml", "demo/scale", "").stale == 0);
  CHECK(read.count("dated.toml", "demo/other", "aaaa").rows == 0);
  CHECK(read.count("other.toml", "demo/scale", "aaaa").rows == 0);
}

TEST_CASE("tuning: a wrong table names file, line and key, and adds nothing") {
  const std::string row = "format = 1\n[[tile]]\ntemplate = \"demo/scale\"\ntarget = \"default\"\ntile = \"mma:m16n16s1w4\"\n";
  const std::vector<std::pair<std::string, std::string_view>> texts{
      {"[[tile]]\n", "'format' is missing"},
      {row + "tiles = 3\n", "t.toml:6: [[tile]] 1: key 'tiles' is not known here"},
      {row + "when = 3\n", "t.toml:6: [[tile]] 1: key 'when' is the integer 3; it must be a table"},
      {row + "when = { heads = 1.5 }\n", "must be an integer or one of the dtypes"},
      {row + "when = { heads = \"bf17\" }\n", "must be an integer or one of the dtypes"},
      {row + "when = { union = 1 }\n", "C++ keyword"},
      {row + "[[tile]]\n", "t.toml:6: [[tile]] 2: key 'template' is missing"},
      {row + "[[tile]]\ntemplate = \"a\"\ntarget = \"sm_1\"\ntile = \"mma:m16n16s1w4\"\n", "t.toml:8"},
      {row + "[[tile]]\ntemplate = \"a\"\ntarget = \"default\"\ntile = \"mma\"\n", "t.toml:9"},
      {row + "[[tile]]\ntemplate = \"../a\"\ntarget = \"default\"\ntile = \"mma:m16n16s1w4\"\n", "t.toml:7"},
      {row + "[[preference]]\ntemplate = \"a\"\ntarget = \"default\"\nparameter = \"group_size\"\n", "'value' is missing"},
      {row + "digest = 7\n", "key 'digest' is the integer 7; it must be a string"},
      {row + "shapes = \"1x64\"\n", "shapes"},
      {row + "noise = \"1%\"\n", "it must be a number"},
      {row + "[more]\n", "'more' is not known here"},
  };
  for (const auto& [text, part] : texts) {
    CAPTURE(text);
    TuningTables read;
    const auto added = read.add(text, "t.toml", TableOwner::user);
    REQUIRE_FALSE(added);
    CHECK(added.error().code == ErrorCode::malformed);
    CHECK_MESSAGE(holds(added.error().message, part), added.error().message);
    CHECK_FALSE(tile_of(read, {"demo/scale", Specialisation(), device("host", "host"), {}}));
  }
}

TEST_CASE("tuning: every row that matches comes, best first, and what was measured anywhere is known") {
  const TuningTables read = tables();
  const auto eight = Specialisation().set("heads", 8).set("dtype", DType::bf16).set("d_qk", 576);
  std::string order;
  const auto h200 = device("sm_90a", "NVIDIA H200");
  for (const auto& match : read.tiles({"demo/scale", eight, h200, {}})) order += match.row.tile.text() + " ";
  CHECK(order == "mma:m64n64s1w4 mma:m64n32s1w4 mma:m32n32s1w4 mma:m256n32s1w4 mma:m16n32s1w4 mma:m16n16s1w4 ");
  CHECK(read.has_measured_tile("demo/scale"));
  CHECK_FALSE(read.has_measured_tile("demo/other"));
  TuningTables unmeasured;
  REQUIRE(unmeasured.add("format = 1\n[[tile]]\ntemplate = \"demo/scale\"\ntarget = \"default\"\ntile = \"mma:m16n16s1w4\"\n", "u.toml",
                         TableOwner::user));
  CHECK_FALSE(unmeasured.has_measured_tile("demo/scale"));
}
