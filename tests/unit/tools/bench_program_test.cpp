// kernwright bench as a program, on the interpreter.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fixtures/temporary_folder.hpp"
#include "unit/tools/edited_templates.hpp"
#include "unit/tools/program.hpp"

using namespace kernwright::tests;
using Json = nlohmann::json;

namespace {

const std::vector<std::string> kSmall{"bench",    "sparse-mla", "--target", "host", "--heads", "2", "--topk", "6",
                                      "--shapes", "1x9,2x4",    "--churn",  "0.3",  "--union", "4", "--quiet"};

std::vector<std::string> with(std::vector<std::string> words, std::initializer_list<const char*> more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("bench: every shape is checked and timed twice, the JSON file holds every sample, the table fits 100 columns") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "bench.json";
  const ChildResult result = kernwright_program(
      with(kSmall, {"--spread-rows", "40", "--repetitions", "4", "--peak-tflops", "1", "--peak-tbps", "2", "--json", file.c_str()}));
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(line.size() <= 100, line);
  CHECK_FALSE(contains(result.out, "registers"));  // the interpreter has none
  const Json json = Json::parse(read_file(file));
  CHECK(json["format"] == 1);
  REQUIRE(json["points"].size() == 3);
  CHECK(json["points"][0]["name"] == "1x9 churn 0.3");
  CHECK(json["points"][2]["kv_rows"] == 40);
  for (const Json& point : json["points"]) {
    CHECK(point["check"]["passed"] == true);
    CHECK(point["union_used"] == 4);
    CHECK(point["launches"].size() == 2);
    for (const char* part : {"total", "control"}) {
      std::vector<double> samples = point[part]["samples_ms"];
      REQUIRE(samples.size() == 4);
      std::ranges::sort(samples);
      CHECK(point[part]["median_ms"].get<double>() == doctest::Approx((samples[1] + samples[2]) / 2));
      CHECK(point[part]["min_ms"].get<double>() == samples.front());
    }
    // 1 TFLOP/s and 2 TB/s: the larger of the two floors, in milliseconds.
    const double arithmetic = point["operations"].get<double>() / 1e12 * 1e3, memory = point["bytes"].get<double>() / 2e12 * 1e3;
    CHECK(point["floor_ms"].get<double>() == doctest::Approx(std::max(arithmetic, memory)));
    CHECK(point["floor_by"] == (arithmetic >= memory ? "arithmetic" : "memory"));
  }
}

TEST_CASE("bench: what is wrong is exit code 1, and has no time") {
  const TemporaryFolder folder;
  const auto templates =  // a union's last row is left out
      edited_templates(folder.path(), "sparse_mla/prefill_keys.cuh", "if (slot >= count) return {0, 0};",
                       "if (slot >= count - 1) return {0, 0};");
  const ChildResult result = kernwright_program(with(kSmall, {"--templates", templates.c_str(), "--json", "-"}));
  CHECK(result.exit_code == 1);
  const Json report = Json::parse(result.out);
  REQUIRE(report["points"].size() == 2);
  for (const Json& point : report["points"]) {
    CHECK(point["check"]["passed"] == false);
    CHECK(point["total"]["samples_ms"].empty());
  }
}

TEST_CASE("bench: progress says what is left, on stderr") {
  std::vector<std::string> words = kSmall;
  words.pop_back();  // --quiet
  const ChildResult result = kernwright_program(with(words, {"--repetitions", "1"}));
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  CHECK_CONTAINS(result.err, "bench sparse-mla: 1/2 1x9 churn 0.3, about ");
  CHECK_CONTAINS(result.err, " left\n");
  CHECK_CONTAINS(result.err, "bench sparse-mla: 2/2 2x4 churn 0.3\n");
}

TEST_CASE("bench: words that are off, and an output that cannot be written, are noticed before the work") {
  check_refused(with(kSmall, {"--tile", "mma"}), {"--tile"});
  check_refused({"bench", "sparse-mla", "--target", "host", "--shapes", "8192"}, {"--shapes 8192", "requests x tokens"});
  check_refused({"bench", "sparse-mla", "--target", "host", "--churn", "some"}, {"--churn some"});
  check_refused({"bench", "sparse-mla", "--target", "host", "--union", "3"}, {"--union 3", "auto, 0 (off), 2, 4, 8, 16"});
  const ChildResult unwritable = kernwright_program(with(kSmall, {"--json", "/no/such/folder/bench.json"}));
  CHECK(unwritable.exit_code == 3);
  CHECK_CONTAINS(unwritable.err, "--json /no/such/folder/bench.json: there is no folder '/no/such/folder'; make it first");
  const TemporaryFolder outputs;
  const std::string same = (outputs.path() / "bench").string();
  check_refused({"bench", "sparse-mla", "--target", "host", "--json", same, "--report", same}, {"--json and --report are one file"});
  CHECK_FALSE(std::filesystem::exists(same));
}
