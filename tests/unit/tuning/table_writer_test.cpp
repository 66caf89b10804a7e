// What the tuner writes is what prepare reads.
#include "search/table_writer.hpp"

#include <doctest/doctest.h>

#include "tuning/tuning_tables.hpp"

using namespace kernwright;
using namespace kernwright::tuning;

TEST_CASE("tuning: a written table is read back: rows, digests, and what they are compared with") {
  Origin origin;
  origin.device.name = "A \"device\"\nof two lines";
  origin.device.target = *Target::parse("sm_90a");
  origin.driver = "13.0";
  origin.compiler = "nvrtc 13.0";
  origin.date = "2026-01-02";
  origin.shapes = {"1x8192 churn 0.05", "a \"file\".safetensors"};
  const auto eight = Specialisation().set("heads", 8).set("group_size", 4).set("dtype", DType::bf16);
  const auto sixteen = Specialisation().set("heads", 16).set("group_size", 4).set("dtype", DType::bf16);
  const std::string text =
      write_tuning_table(origin,
                         {{{"demo/scale", eight}, "aaaa", *Tile::parse("mma:m64n32s2w8"), *Tile::parse("mma:m16n32s2w4"), 1.5, 0.01},
                          {{"demo/scale", sixteen}, "aaaa", *Tile::parse("mma:m32n32s2w8"), std::nullopt, 1, 0.25}},
                         {{"demo/scale", Specialisation().set("heads", 8), "bbbb", "group_size", 4, 1.25, 0.02}});
  TuningTables read;
  const auto added = read.add(text, "written.toml", TableOwner::user);
  REQUIRE_MESSAGE(added, (added ? "" : added.error().text()) << "\n" << text);
  const auto match = read.tiles({"demo/scale", eight, origin.device, "aaaa"});
  REQUIRE(match.size() == 1);
  CHECK(match[0].row.tile.text() == "mma:m64n32s2w8");
  CHECK(match[0].source() == "written.toml (device)");
  CHECK_FALSE(match[0].row.measured.empty());
  CHECK_FALSE(match[0].stale);
  CHECK(read.tiles({"demo/scale", sixteen, origin.device, "aaaa"}).at(0).row.tile.text() == "mma:m32n32s2w8");
  CHECK(read.tiles({"demo/scale", eight, origin.device, "cccc"}).at(0).stale);
  DeviceInfo other = origin.device;
  other.name = "another";
  CHECK(read.tiles({"demo/scale", eight, other, "aaaa"}).empty());
  const auto choice = read.preferences({"demo/scale", eight, origin.device, "bbbb"}, "group_size");
  REQUIRE(choice.size() == 1);
  CHECK(choice[0].row.value == 4);
  CHECK(choice[0].row.digest == "bbbb");
  for (const std::string_view part : {"driver = \"13.0\"", "compiler = \"nvrtc 13.0\"", "date = \"2026-01-02\"", "gain = 1.5000",
                                      "noise = 0.0100", "shapes = [\"1x8192 churn 0.05\", ", "default = \"mma:m16n32s2w4\""}) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  }
}
