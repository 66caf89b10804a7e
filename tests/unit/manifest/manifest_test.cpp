#include "manifest/manifest.hpp"

#include <doctest/doctest.h>

using namespace kernwright;

namespace {

constexpr std::string_view kManifest = R"(format = 1
name = "demo/scale"
entry = "kw_demo_scale"
plan = "demo/scale_plan.cuh"
fall_back = ["mma:m64n32s2w8", "wgmma:m64n64s2w8", "mma:m32n32s1w4", "portable:m16n16s1w4"]
[[parameter]]
name = "heads"
type = "int"
range = [1, 128]
[[parameter]]
name = "group_size"
type = "int"
values = [1, 2, 4]
default = 1
[[parameter]]
name = "dtype"
type = "dtype"
values = ["bf16", "f16"]
default = "bf16"
[[variant]]
name = "wgmma"
source = "demo/scale_wgmma.cu"
minimum_capability = "9.0"
targets = ["sm_90a"]
host = false
block_m = [64]
block_n = [64]
stages = [2]
warps = [8]
[[variant]]
name = "mma"
source = "demo/scale_mma.cu"
minimum_capability = "8.0"
block_m = [32, 64]
block_n = [32]
stages = [1, 2]
warps = [4, 8]
[[variant]]
name = "portable"
source = "demo/scale_portable.cu"
block_m = [16]
block_n = [16]
stages = [1]
warps = [4]
)";

Manifest manifest() {
  auto read = parse_manifest(kManifest, "scale.toml");
  REQUIRE_MESSAGE(read, (read ? "" : read.error().text()));
  return *read;
}

/// The manifest with its first occurrence of `from` replaced.
std::string with(std::string_view from, std::string_view to) {
  std::string text(kManifest);
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string texts(const std::vector<Tile>& tiles) {
  std::string line;
  for (const Tile& tile : tiles) line += tile.text() + " ";
  return line;
}

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("manifest: the whole form is read") {
  const Manifest read = manifest();
  CHECK(read.name == "demo/scale");
  CHECK(read.entry == "kw_demo_scale");
  CHECK(read.plan == "demo/scale_plan.cuh");
  CHECK(texts(read.fall_back) == "mma:m64n32s2w8 wgmma:m64n64s2w8 mma:m32n32s1w4 portable:m16n16s1w4 ");
  REQUIRE(read.parameters.size() == 3);
  CHECK(read.parameters[0].minimum == 1);
  CHECK(read.parameters[0].maximum == 128);
  CHECK_FALSE(read.parameters[0].default_value);
  CHECK(read.parameters[1].values == std::vector<std::int64_t>{1, 2, 4});
  CHECK(read.parameters[1].default_value == ParameterValue{std::int64_t{1}});
  CHECK(read.parameters[2].dtypes == std::vector<DType>{DType::bf16, DType::f16});
  CHECK(read.parameters[2].default_value == ParameterValue{DType::bf16});
  REQUIRE(read.variants.size() == 3);
  CHECK(read.variants[0].minimum_capability == 90);
  CHECK(read.variants[0].targets == std::vector<std::string>{"sm_90a"});
  CHECK_FALSE(read.variants[0].host);
  CHECK(read.variants[1].source == "demo/scale_mma.cu");
  CHECK(read.variants[1].stages == std::vector<std::int64_t>{1, 2});
  CHECK(read.variants[2].minimum_capability == 80);
  CHECK(read.variants[2].host);
}

TEST_CASE("manifest: a specialisation is completed in the manifest's order, or refused with what is legal") {
  const Manifest m = manifest();
  const auto complete = m.complete(Specialisation().set("dtype", DType::f16).set("heads", 8));
  REQUIRE(complete);
  CHECK(complete->text() == "heads=8 group_size=1 dtype=f16");
  CHECK(m.complete(Specialisation().set("heads", 128).set("group_size", 4))->text() == "heads=128 group_size=4 dtype=bf16");

  const std::vector<std::pair<Specialisation, std::string_view>> refused{
      {Specialisation(), "'heads' was not given and has no default; legal integers are 1 to 128"},
      {Specialisation().set("heads", 0), "'heads' is the integer 0; legal integers are 1 to 128"},
      {Specialisation().set("heads", 129), "legal integers are 1 to 128"},
      {Specialisation().set("heads", 8).set("group_size", 3), "'group_size' is the integer 3; legal integers are: 1, 2, 4"},
      {Specialisation().set("heads", DType::bf16), "'heads' is the dtype bf16; legal integers are 1 to 128"},
      {Specialisation().set("heads", 8).set("dtype", DType::u8), "'dtype' is the dtype u8; legal dtypes are: bf16, f16"},
      {Specialisation().set("heads", 8).set("dtype", 1), "legal dtypes are: bf16, f16"},
      {Specialisation().set("heads", 8).set("topk", 1), "has no parameter 'topk'; it has: heads, group_size, dtype"},
  };
  for (const auto& [given, part] : refused) {
    const auto answer = m.complete(given);
    REQUIRE_FALSE(answer);
    CHECK(answer.error().code == ErrorCode::invalid_argument);
    CHECK_MESSAGE(holds(answer.error().message, part), answer.error().message);
    CHECK(holds(answer.error().message, "demo/scale"));
  }
}

TEST_CASE("manifest: a tile is offered axis by axis") {
  const Manifest m = manifest();
  CHECK(m.check_tile({"mma", 32, 32, 1, 8}));  // need not be in the fall-back order
  const std::vector<std::pair<Tile, std::string_view>> refused{
      {{"tma", 64, 32, 2, 8}, "no variant 'tma'; it has: wgmma, mma, portable"},
      {{"mma", 16, 32, 2, 8}, "block_m = 16; legal are: 32, 64"},
      {{"mma", 64, 64, 2, 8}, "block_n = 64; legal are: 32"},
      {{"mma", 64, 32, 3, 8}, "stages = 3; legal are: 1, 2"},
      {{"mma", 64, 32, 2, 2}, "warps = 2; legal are: 4, 8"},
  };
  for (const auto& [tile, part] : refused) {
    const auto answer = m.check_tile(tile);
    REQUIRE_FALSE(answer);
    CHECK(answer.error().code == ErrorCode::invalid_argument);
    CHECK_MESSAGE(holds(answer.error().message, part), answer.error().message);
  }
}

TEST_CASE("manifest: candidates go down inside the variant first, and only where it is offered") {
  const Manifest m = manifest();
  const Target h100 = *Target::parse("sm_90a");
  const Target plain90 = *Target::parse("sm_90");
  const Target a100 = *Target::parse("sm_80");
  CHECK(texts(m.candidates({}, h100)) == "mma:m64n32s2w8 wgmma:m64n64s2w8 mma:m32n32s1w4 portable:m16n16s1w4 ");
  CHECK(texts(m.candidates({}, plain90)) == "mma:m64n32s2w8 mma:m32n32s1w4 portable:m16n16s1w4 ");
  CHECK(texts(m.candidates({}, a100)) == "mma:m64n32s2w8 mma:m32n32s1w4 portable:m16n16s1w4 ");
  CHECK(texts(m.candidates({}, Target::host())) == "mma:m64n32s2w8 mma:m32n32s1w4 portable:m16n16s1w4 ");
  CHECK(texts(m.candidates(Tile{"mma", 64, 32, 2, 8}, h100)) == "mma:m64n32s2w8 mma:m32n32s1w4 wgmma:m64n64s2w8 portable:m16n16s1w4 ");
  CHECK(texts(m.candidates(Tile{"mma", 32, 32, 1, 4}, h100)) == "mma:m32n32s1w4 wgmma:m64n64s2w8 portable:m16n16s1w4 ");
  // Not in the order: before all of its variant's.
  CHECK(texts(m.candidates(Tile{"mma", 64, 32, 1, 4}, a100)) == "mma:m64n32s1w4 mma:m64n32s2w8 mma:m32n32s1w4 portable:m16n16s1w4 ");
  // Asked for where its variant is not offered.
  CHECK(texts(m.candidates(Tile{"wgmma", 64, 64, 2, 8}, a100)) == "mma:m64n32s2w8 mma:m32n32s1w4 portable:m16n16s1w4 ");
  CHECK(texts(m.candidates(Tile{"portable", 16, 16, 1, 4}, Target::host())) == "portable:m16n16s1w4 mma:m64n32s2w8 mma:m32n32s1w4 ");
  CHECK(m.variant("mma") == &m.variants[1]);
  CHECK(m.variant("none") == nullptr);
}

TEST_CASE("manifest: every error names the file, the line, the key and what is legal") {
  struct Case {
    std::string text;
    std::string_view where;
    std::string_view says;
  };
  const std::vector<Case> cases{
      {with("format = 1", "format = 2"), "scale.toml:1", "this version reads format 1"},
      {with("format = 1\n", ""), "scale.toml", "'format' is missing"},
      {with("\"demo/scale\"", "\"demo/../scale\""), "scale.toml:2", "joined by '/'"},
      {with("\"demo/scale\"", "\"Demo/scale\""), "scale.toml:2", "a-z"},
      {with("\"demo/scale\"", "\"/demo\""), "scale.toml:2", "none empty"},
      {with("\"demo/scale\"", "\"demo/\""), "scale.toml:2", "none empty"},
      {with("\"demo/scale\"", "\"\""), "scale.toml:2", "is empty"},
      {with("\"demo/scale\"", "\"a b\""), "scale.toml:2", "a-z"},
      {with("\"demo/scale\"", "17"), "scale.toml:2", "it must be a string"},
      {with("kw_demo_scale", "1scale"), "scale.toml:3", "beginning with a letter"},
      {with("kw_demo_scale", "union"), "scale.toml:3", "'union', which is a C++ keyword"},
      {with("kw_demo_scale", "__scale"), "scale.toml:3", "beginning with a letter"},
      {with("kw_demo_scale", "kw_plan"), "scale.toml:3", "means something else"},
      {with("demo/scale_plan.cuh", "../plan.cuh"), "scale.toml:4", "none beginning with '.'"},
      {with("demo/scale_plan.cuh", "kernwright/x.cuh"), "scale.toml:4", "generated headers"},
      {with("\"mma:m64n32s2w8\", ", "\"mma:m64\", "), "scale.toml:5", "variant:m<rows>"},
      {with("\"mma:m64n32s2w8\", ", "\"mma:m128n32s2w8\", "), "scale.toml:5", "block_m = 128; legal are: 32, 64"},
      {with("\"mma:m64n32s2w8\", ", "\"tma:m64n32s2w8\", "), "scale.toml:5", "no variant 'tma'"},
      {with("\"mma:m64n32s2w8\", ", "\"portable:m16n16s1w4\", "), "scale.toml:5", "a tile twice"},
      {with("\"mma:m64n32s2w8\", ", "8, "), "scale.toml:5", "array of strings"},
      {with("\"heads\"", "\"union\""), "scale.toml:7: [[parameter]] 1", "C++ keyword"},
      {with("\"heads\"", "\"head__s\""), "scale.toml:7", "'__'"},
      {with("\"heads\"", "\"DType\""), "scale.toml:7", "means something else"},
      {with("\"heads\"", "\"head-s\""), "scale.toml:7", "letters, digits"},
      {with("\"heads\"", "\"group_size\""), "scale.toml:11: [[parameter]] 2", "an earlier [[parameter]] has already"},
      {with("\"int\"", "\"float\""), "scale.toml:8", "legal are int and dtype"},
      {with("range = [1, 128]", "range = [128, 1]"), "scale.toml:9", "the smaller first"},
      {with("range = [1, 128]", "range = [1]"), "scale.toml:9", "two integers"},
      {with("range = [1, 128]", "range = [1, 3000000000]"), "scale.toml:9", "32 bits"},
      {with("range = [1, 128]", "range = [1, 8]\nvalues = [1]"), "scale.toml:6", "either 'range'"},
      {with("range = [1, 128]\n", ""), "scale.toml:6", "either 'range'"},
      {with("range = [1, 128]", "range = [1, 128]\nmaximum = 4"), "scale.toml:10", "'maximum' is not known here"},
      {with("values = [1, 2, 4]", "values = [1, 2, 2]"), "scale.toml:13", "a value twice"},
      {with("default = 1", "default = 3"), "scale.toml:14", "'default' is the integer 3; legal integers are: 1, 2, 4"},
      {with("default = 1", "default = \"1\""), "scale.toml:14", "it must be an integer"},
      {with("[\"bf16\", \"f16\"]", "[\"bf17\"]"), "scale.toml:18", "'bf17', which is no dtype"},
      {with("[\"bf16\", \"f16\"]", "[]"), "scale.toml:18", "at least one dtype"},
      {with("default = \"bf16\"", "default = \"f32\""), "scale.toml:19", "legal dtypes are: bf16, f16"},
      {with("\"wgmma\"", "\"Wgmma\""), "scale.toml:21: [[variant]] 1", "lower case"},
      {with("demo/scale_wgmma.cu", "demo/Scale.cu"), "scale.toml:22", "a-z"},
      {with("\"9.0\"", "\"7.5\""), "scale.toml:23", "8.0 or later"},
      {with("\"9.0\"", "\"9\""), "scale.toml:23", "8.0 or later"},
      {with("\"9.0\"", "\"9.00\""), "scale.toml:23", "8.0 or later"},
      {with("\"9.0\"", "\"1x.0\""), "scale.toml:23", "8.0 or later"},
      {with("[\"sm_90a\"]", "[\"sm_70\"]"), "scale.toml:24", "not known"},
      {with("[\"sm_90a\"]", "[\"sm_80\"]"), "scale.toml:24", "below this variant's minimum_capability"},
      {with("[\"sm_90a\"]", "[\"host\"]"), "scale.toml:24", "host = true"},
      {with("host = false", "host = 0"), "scale.toml:25", "true or false"},
      {with("block_m = [64]", "block_m = []"), "scale.toml:26", "missing or empty"},
      {with("block_m = [64]", "block_m = [0]"), "scale.toml:26", "legal are 1 to 65536"},
      {with("block_m = [64]", "block_m = [64, 64]"), "scale.toml:26", "a value twice"},
      {with("warps = [8]", "warps = [64]"), "scale.toml:29", "legal are 1 to 32"},
      {std::string(kManifest) + "[extra]\n", "scale.toml", "'extra' is not known here"},
      {std::string(kManifest.substr(0, kManifest.find("[[variant]]"))), "scale.toml", "at least one [[variant]]"},
  };
  for (const Case& each : cases) {
    CAPTURE(each.says);
    const auto read = parse_manifest(each.text, "scale.toml");
    REQUIRE_FALSE(read);
    CHECK(read.error().code == ErrorCode::malformed);
    CHECK_MESSAGE(holds(read.error().message, each.where), read.error().message);
    CHECK_MESSAGE(holds(read.error().message, each.says), read.error().message);
  }
}
