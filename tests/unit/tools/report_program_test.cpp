// tune --report and bench --report: the page's figures are the journal's and the JSON's, and text from data stays text.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include "fixtures/temporary_folder.hpp"
#include "support/random.hpp"
#include "support/safetensors.hpp"
#include "unit/tools/program.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

constexpr std::string_view kHostile = "<script>alert(1)<script>&amp;";

/// The JSON inside the page's script element of this id.
Json embedded_json(const std::string& page, const std::string& id) {
  const std::string begin = "<script type=\"application/json\" id=\"" + id + "\">";
  const std::size_t from = page.find(begin);
  REQUIRE(from != std::string::npos);
  const std::size_t text = from + begin.size();
  const Json json = Json::parse(page.substr(text, page.find("</script>", text) - text), nullptr, false);
  REQUIRE_FALSE(json.is_discarded());
  return json;
}

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

double median(std::vector<double> values) {
  REQUIRE_FALSE(values.empty());
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double score(const Json& measurement) {
  double logarithms = 0;
  for (const Json& shape : measurement["shapes"]) logarithms += std::log(median(shape["samples_ms"]));
  return std::exp(logarithms / static_cast<double>(measurement["shapes"].size()));
}

std::string four_digits(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

/// A page that needs nothing but itself, in which no text of ours has become an element.
void check_self_contained(const std::string& page) {
  CHECK(page.starts_with("<!doctype html>"));
  for (const std::string_view outside : {"<link", "src=\"", "href=\"", "url(", "@import"})
    CHECK_MESSAGE(count(page, outside) == 0, std::string(outside));
  CHECK(count(page, "<script") == 4);  // data, charts, the library, what draws
  CHECK(count(page, "</script>") == 4);
  CHECK_CONTAINS(page, "Chart.js v3.9.1");
  CHECK_CONTAINS(page, "Permission is hereby granted");
  CHECK_CONTAINS(page, "prefers-color-scheme: dark");
  CHECK_CONTAINS(page, "width=device-width");
}

void write_input(const std::filesystem::path& file) {
  const auto q = support::random_normal_bf16(9 * 2 * 576, 3, 1), kv = support::random_normal_bf16(9 * 576, 3, 2);
  std::vector<std::int32_t> indices;
  for (std::int32_t t = 0; t < 9; ++t) {
    for (std::int32_t k = 0; k < 6; ++k) indices.push_back((t + k) % 9);
  }
  const std::vector<support::SafetensorsTensor> tensors{{"q", DType::bf16, {9, 2, 576}, std::as_bytes(std::span(q))},
                                                        {"kv", DType::bf16, {9, 576}, std::as_bytes(std::span(kv))},
                                                        {"indices", DType::i32, {9, 6}, std::as_bytes(std::span(indices))}};
  REQUIRE(support::write_safetensors(file, tensors));
}

std::vector<Json> journal_lines(const std::filesystem::path& file) {
  std::istringstream lines(read_file(file));
  std::vector<Json> all;
  for (std::string line; std::getline(lines, line);) all.push_back(Json::parse(line));
  REQUIRE(all.size() > 1);
  all.erase(all.begin());  // what the run is
  return all;
}

/// Every figure of a tuning's page is the journal's. Answers the bar charts.
std::vector<Json> check_tuning_figures(const std::string& page, const std::filesystem::path& journal, std::size_t subject_count,
                                       std::size_t searched_count) {
  const Json charts = embedded_json(page, "kernwright-charts");
  std::vector<Json> heats, finals, bars;
  for (const Json& chart : charts) {
    if (chart["kind"] == "heat") heats.push_back(chart);
    if (chart["kind"] == "points") finals.push_back(chart);
    if (chart["kind"] == "bars") bars.push_back(chart);
    CHECK(count(page, "<canvas id=\"" + chart["id"].get<std::string>() + "\"") == 1);
  }
  const Json data = embedded_json(page, "kernwright-data");
  REQUIRE(data["subjects"].size() == subject_count);
  REQUIRE(heats.size() == subject_count);
  std::map<std::string, std::size_t> subjects;
  for (std::size_t i = 0; i < subject_count; ++i) subjects[data["subjects"][i]["specialisation"]] = i;

  std::size_t cells = 0, searched = 0, rounds = 0;
  for (const Json& heat : heats) cells += heat["cells"].size();
  std::map<std::string, std::vector<double>> round_scores;
  for (const Json& line : journal_lines(journal)) {
    const std::string tile = line["tile"], name = line["specialisation"];
    CAPTURE(line.dump());
    const bool measured = line["outcome"] == "measured";
    if (line["phase"] == "search") {
      ++searched;
      const Json& of_subject = heats[subjects.at(name)]["cells"];
      const auto cell = std::ranges::find_if(of_subject, [&](const Json& each) { return each["tile"] == tile; });
      REQUIRE(cell != of_subject.end());
      CHECK((*cell)["outcome"] == line["outcome"]);
      CHECK((*cell)["value"].is_null() == !measured);
      if (!measured) continue;
      CHECK((*cell)["value"].get<double>() == doctest::Approx(score(line)).epsilon(1e-12));
      CHECK_CONTAINS(page, "<td class=\"code\">" + tile + "</td><td class=\"text\">measured</td><td class=\"number\">" +
                               four_digits(score(line)) + "</td>");
    } else if (measured) {
      round_scores[line["phase"].get<std::string>() + " " + name + " " + tile].push_back(score(line));
      ++rounds;
    }
  }
  CHECK(searched == cells);
  CHECK(searched == searched_count);

  std::size_t points = 0;
  for (const Json& chart : finals) points += chart["series"][0]["points"].size();
  CHECK(points == rounds);
  for (const auto& [key, scores] : round_scores) {
    // The median of a tile's rounds stands in the page, in a table and as a point.
    CHECK_CONTAINS(page, "<td class=\"number\">" + four_digits(median(scores)) + "</td>");
    const bool drawn = std::ranges::any_of(finals, [&](const Json& chart) {
      return std::ranges::any_of(chart["series"][1]["points"],
                                 [&](const Json& point) { return std::abs(point[1].get<double>() / median(scores) - 1) < 1e-12; });
    });
    CHECK_MESSAGE(drawn, key);
  }
  for (const Json& line : journal_lines(journal)) {
    const std::size_t subject = subjects.at(line["specialisation"]);
    if (line["phase"] != "search" || line["tile"] != data["subjects"][subject]["default"] || line["outcome"] != "measured") continue;
    INFO("the default's medians by shape");
    const bool there = std::ranges::any_of(bars, [&](const Json& chart) {
      const Json& series = chart["series"][0];
      return series["name"] == "default " + line["tile"].get<std::string>() &&
             series["values"][0].get<double>() == doctest::Approx(median(line["shapes"][0]["samples_ms"])).epsilon(1e-12);
    });
    CHECK(there);
  }
  return bars;
}

}  // namespace

TEST_CASE("report of tune: every figure is the journal's, and a shape's name with markup stays text") {
  const TemporaryFolder folder;
  const auto input = folder.path() / (std::string(kHostile) + ".safetensors");
  write_input(input);
  const auto table = folder.path() / "table.toml", report = folder.path() / "report.html";
  const ChildResult run = kernwright_program({"tune",          "sparse-mla", "--target", "host",     "--input", input.string(), "--union",
                                              "0,4",           "--strategy", "random",   "--budget", "6",       "--rounds",     "2",
                                              "--repetitions", "3",          "--seed",   "5",        "--out",   table.string(), "--report",
                                              report.string(), "--quiet"});
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  const std::string page = read_file(report);
  check_self_contained(page);
  CHECK(count(page, "<script>alert") == 0);
  CHECK_CONTAINS(page, "&lt;script&gt;alert(1)&lt;script&gt;&amp;amp;");

  check_tuning_figures(page, table.string() + ".journal.jsonl", 2, 12);
}

TEST_CASE("report of tune paged-mla: every figure is the journal's, and numbers of new tokens stand side by side") {
  const TemporaryFolder folder;
  const auto table = folder.path() / "table.toml", report = folder.path() / "report.html";
  const ChildResult run = kernwright_program({"tune",          "paged-mla",
                                              "--target",      "host",
                                              "--heads",       "2",
                                              "--s-q",         "1,2",
                                              "--shapes",      "1x5,2x9",
                                              "--page-size",   "4",
                                              "--strategy",    "random",
                                              "--budget",      "2",
                                              "--rounds",      "2",
                                              "--repetitions", "3",
                                              "--seed",        "5",
                                              "--out",         table.string(),
                                              "--report",      report.string(),
                                              "--quiet"});
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  const std::string page = read_file(report);
  check_self_contained(page);
  const std::vector<Json> bars = check_tuning_figures(page, table.string() + ".journal.jsonl", 2, 4);
  for (const char* name : {"s_q = 1: ", "s_q = 2: "}) {
    CHECK(std::ranges::any_of(bars, [&](const Json& chart) {
      return chart["labels"] == Json{"1x5", "2x9"} &&
             std::ranges::any_of(chart["series"], [&](const Json& series) { return series["name"].get<std::string>().starts_with(name); });
    }));
  }
  CHECK_CONTAINS(page, "Tuning of paged-mla on host");
}

TEST_CASE("report of bench: figures are the JSON's, peers and floors stand beside them, and a peer's name with markup stays text") {
  const TemporaryFolder folder;
  const auto json_file = folder.path() / "bench.json", report = folder.path() / "bench.html", peers = folder.path() / "peers.json";
  std::ofstream(peers) << Json{{"name", kHostile}, {"points", {{{"name", "1x9 churn 0.3"}, {"median_ms", 1.25}}}}}.dump();
  const std::vector<std::string> words{"bench",   "sparse-mla", "--target", "host",          "--heads", "2",
                                       "--topk",  "6",          "--shapes", "1x9,2x4",       "--churn", "0.3",
                                       "--union", "4",          "--quiet",  "--repetitions", "3"};
  const ChildResult run = kernwright_program(words + std::vector<std::string>{"--peak-tflops", "1", "--json", json_file.string(),
                                                                              "--report", report.string(), "--peers", peers.string()});
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  const std::string page = read_file(report);
  check_self_contained(page);
  CHECK(count(page, "<script>alert") == 0);
  CHECK_CONTAINS(page, "&lt;script&gt;alert(1)&lt;script&gt;&amp;amp; ms</th>");
  const Json json = Json::parse(read_file(json_file));
  const Json speeds = embedded_json(page, "kernwright-charts")[0];
  REQUIRE(speeds["series"].size() == 3);
  CHECK(speeds["series"][1]["name"] == "floor");
  CHECK(speeds["series"][2]["name"] == std::string(kHostile));
  CHECK(speeds["series"][2]["values"] == Json{1.25, nullptr});
  for (std::size_t i = 0; i < 2; ++i) {
    const Json& point = json["points"][i];
    CHECK(speeds["labels"][i] == point["name"]);
    const double ours = median(point["total"]["samples_ms"]);
    CHECK(speeds["series"][0]["values"][i].get<double>() == doctest::Approx(ours).epsilon(1e-12));
    CHECK(speeds["series"][1]["values"][i].get<double>() == doctest::Approx(point["floor_ms"].get<double>()).epsilon(1e-12));
    CHECK_CONTAINS(page, "<td class=\"number\">" + four_digits(ours) + "</td>");
  }
  CHECK(embedded_json(page, "kernwright-data") == json);

  {
    INFO("an earlier bench --json is a peer as well");
    const ChildResult again = kernwright_program(words + std::vector<std::string>{"--peers", json_file.string()});
    REQUIRE_MESSAGE(again.exit_code == 0, again.err);
    CHECK_CONTAINS(again.out, "bench                      peer ms    x ours");
    std::istringstream lines(again.out);
    for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(line.size() <= 100, line);
  }
  std::ofstream(peers) << R"({"points": [{"name": "1x9 churn 0.3"}]})";
  check_refused(words + std::vector<std::string>{"--peers", peers.string()}, {"peers.json", "has no median_ms"});
}

TEST_CASE("report: a file that cannot be written is noticed before the work") {
  for (const std::string command : {"bench", "tune"}) {
    check_error(3, {command, "sparse-mla", "--target", "host", "--heads", "2", "--quiet", "--report", "/no/such/folder/report.html"},
                {"--report /no/such/folder/report.html: there is no folder '/no/such/folder'; make it first"}, in_store());
  }
}
