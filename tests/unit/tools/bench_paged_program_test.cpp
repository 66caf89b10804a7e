// kernwright bench paged-mla as a program, on the interpreter.
#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "fixtures/temporary_folder.hpp"
#include "unit/tools/edited_templates.hpp"
#include "unit/tools/program.hpp"

using namespace kernwright::tests;

namespace {

const std::vector<std::string> kSmall{"bench", "paged-mla",     "--target", "host",          "--points", "2:2x70", "--layers",
                                      "3",     "--block-table", "3x200",    "--repetitions", "4",        "--quiet"};

}  // namespace

TEST_CASE("bench paged-mla: static and unified are checked and timed beside a copy, the table fits 100 columns") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "bench.json";
  const ChildResult result =
      kernwright_program(kSmall + std::vector<std::string>{"--matrix-tflops", "0.5", "--json", file.string(), "--s-q", "2"});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(line.size() <= 100, line);
  const Json json = Json::parse(read_file(file));
  CHECK(json["format"] == 1);
  CHECK(json["benchmark"] == "paged-mla");
  CHECK(json["query_tokens"] == 2);
  CHECK(json["launches"] == "stream");
  CHECK(json["copy"]["median_tbps"] > 0);
  const double copy = json["copy"]["median_tbps"];
  REQUIRE(json["points"].size() == 2);
  for (const Json& point : json["points"]) {
    CHECK(point["name"] == "2:2x70");
    CHECK(point["check"]["passed"] == true);
    CHECK(point["check"]["requests"] == 4);
    CHECK(point["rotated_batches"] == 2);
    CHECK(point["bytes"] == 2 * 70 * 576 * 2);
    CHECK(point["operations"] == 2 * 2 * 70 * 2 * 2 * (576 + 512));
    std::vector<double> samples = point["time"]["samples_us"];
    REQUIRE(samples.size() == 4);
    std::ranges::sort(samples);
    const double median = point["time"]["median_us"];
    CHECK(median == doctest::Approx((samples[1] + samples[2]) / 2));
    CHECK(point["tbps"].get<double>() == doctest::Approx(2 * 70 * 1152 / (median * 1e6)));
    CHECK(point["of_copy_bandwidth"].get<double>() == doctest::Approx(2 * 70 * 1152 / (median * 1e6) / copy));
    CHECK(point["of_matrix_rate"].get<double>() == doctest::Approx(point["operations"].get<double>() / (median * 1e6) / 0.5));
  }
  CHECK(json["points"][0]["pool"] == "static");
  CHECK(json["points"][0]["of_static_time"].is_null());
  CHECK(json["points"][1]["pool"] == "unified");
  CHECK(json["points"][1]["layers"] == 3);
  CHECK(json["points"][1]["moved_pages"] > 0);
  CHECK(json["points"][1]["of_static_time"] > 0);
  REQUIRE(json["block_tables"].size() == 3);
  CHECK(json["block_tables"][0]["ids"] == "anywhere");
  CHECK(json["block_tables"][1]["ids"] == "anywhere");
  CHECK(json["block_tables"][2]["ids"] == "in order");
  for (const Json& table : json["block_tables"]) {
    CHECK(table["wrong_cells"] == 0);
    CHECK(table["time"]["samples_us"].size() == 4);
  }
}

TEST_CASE("bench paged-mla: what is wrong is exit code 1, and has no time") {
  const TemporaryFolder folder;
  const auto templates =  // a request's last key is left out
      edited_templates(folder.path(), "paged_mla/decode_rows.cuh", "if (slot >= length) return {0, 0};",
                       "if (slot >= length - 1) return {0, 0};");
  const ChildResult result = kernwright_program(kSmall + std::vector<std::string>{"--json", "-", "--templates", templates.string()});
  CHECK(result.exit_code == 1);
  const Json report = json_of(result);
  for (const Json& point : report["points"]) {
    CHECK(point["check"]["passed"] == false);
    CHECK(point["time"]["samples_us"].empty());
    CHECK(point["tbps"].is_null());
  }
}

TEST_CASE("bench paged-mla: words that are off are refused with the legal ones") {
  const std::vector<std::string> bench{"bench", "paged-mla", "--target", "host"};
  for (const char* points : {"8x16", "8:16", "8:16x", "0:1x1", "129:1x1", "8:1x0", "8:1x1,", "8:1x99999999999"}) {
    check_refused(bench + std::vector<std::string>{"--points", points}, {"--points", "8:16x32768"});
  }
  check_refused(bench + std::vector<std::string>{"--pools", "dynamic"}, {"--pools 'dynamic'", "static and unified"});
  check_refused(bench + std::vector<std::string>{"--block-table", "256"}, {"--block-table '256'", "256x131072"});
  check_refused(bench + std::vector<std::string>{"--launches", "graph"}, {"--launches graph", "host interpreter", "stream"});
  check_refused(bench + std::vector<std::string>{"--launches", "batch"}, {"--launches", "batch", "graph"});
  check_refused(bench + std::vector<std::string>{"--s-q", "9"}, {"--s-q", "1 to 8"});
  check_refused(bench + std::vector<std::string>{"--page-size", "65"}, {"page_size"});
  const ChildResult unwritable = kernwright_program(kSmall + std::vector<std::string>{"--json", "/no/such/folder/bench.json"});
  CHECK(unwritable.exit_code == 3);
  CHECK_CONTAINS(unwritable.err, "--json /no/such/folder/bench.json: there is no folder '/no/such/folder'; make it first");
}
