// A benchmark as a page: speed by shape beside floors and peers, the noise, what each launch takes.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bench_json.hpp"

namespace kernwright::tool {
namespace {

using Kind = HtmlPage::Column::Kind;

std::string milliseconds(double ms) {
  return ms > 0 ? fmt::format("{:.4g}", ms) : std::string("-");
}
Json value_or_null(double value) {
  return value > 0 ? Json(value) : Json(nullptr);
}
double percent_of(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

void speeds(HtmlPage& page, const BenchReport& report) {
  std::vector<std::string> labels;
  Json ours = Json::array(), floors = Json::array();
  bool any_floor = false;
  for (const BenchPoint& point : report.points) {
    labels.push_back(point.name);
    ours.push_back(value_or_null(support::spread(point.total_ms).median));
    floors.push_back(value_or_null(point.floor_ms));
    any_floor |= point.floor_ms > 0;
  }
  Json series = Json::array();
  series.push_back({{"name", "kernwright"}, {"values", std::move(ours)}});
  if (any_floor) series.push_back({{"name", "floor"}, {"values", std::move(floors)}});
  for (const BenchPeer& peer : report.peers) {
    Json values = Json::array();
    for (const BenchPoint& point : report.points) values.push_back(value_or_null(peer.median_of(point.name)));
    series.push_back({{"name", peer.name}, {"values", std::move(values)}});
  }
  page.chart(fmt::format("Median time of each shape, in ms, everything from the indices to the output{}{}.",
                         any_floor ? "; the floor is the larger of operations and bytes over the device's rates" : "",
                         report.peers.empty() ? "" : "; peers as their files say"),
             {{"kind", "bars"}, {"unit", "ms"}, {"log", true}, {"labels", labels}, {"series", std::move(series)}});
}

void point_table(HtmlPage& page, const BenchReport& report) {
  std::vector<HtmlPage::Column> columns{{"shape", Kind::code},       {"G", Kind::number},         {"union", Kind::number},
                                        {"tile", Kind::code},        {"median ms", Kind::number}, {"spread %", Kind::number},
                                        {"control %", Kind::number}, {"floor ms", Kind::number},  {"x floor", Kind::number}};
  for (const BenchPeer& peer : report.peers) columns.push_back({peer.name + " ms", Kind::number});
  columns.push_back({"check", Kind::prose});
  std::vector<HtmlPage::Row> rows;
  for (const BenchPoint& point : report.points) {
    const support::Spread total = support::spread(point.total_ms), control = support::spread(point.control_ms);
    HtmlPage::Row row{{point.name, std::to_string(point.union_used), fmt::format("{:.2f}", point.work.relative_union), point.tile,
                       milliseconds(total.median), fmt::format("{:.1f}", percent_of(total.largest - total.smallest, total.median)),
                       fmt::format("{:.1f}", percent_of(control.median - total.median, total.median)), milliseconds(point.floor_ms),
                       point.floor_ms > 0 ? fmt::format("{:.2f}", total.median / point.floor_ms) : "-"},
                      false};
    for (const BenchPeer& peer : report.peers) row.cells.push_back(milliseconds(peer.median_of(point.name)));
    row.cells.push_back(point.check.passed ? "right" : "WRONG: " + point.check.first_failure);
    rows.push_back(std::move(row));
  }
  page.table(columns, rows);
}

void noise(HtmlPage& page, const BenchReport& report) {
  std::vector<std::string> labels;
  Json first = Json::array(), again = Json::array();
  for (const BenchPoint& point : report.points) {
    const double median = support::spread(point.total_ms).median;
    if (median <= 0) continue;
    for (const double ms : point.total_ms) first.push_back({labels.size(), 100 * ms / median});
    for (const double ms : point.control_ms) again.push_back({labels.size(), 100 * ms / median});
    labels.push_back(point.name);
  }
  if (labels.empty()) return;
  page.heading("Noise");
  page.chart("Every sample in per cent of its shape's median, and those of the control, the same measured once more.",
             {{"kind", "points"},
              {"unit", "% of the median"},
              {"log", false},
              {"labels", labels},
              {"series", {{{"name", "a sample"}, {"points", first}}, {{"name", "a sample of the control"}, {"points", again}}}}});
}

void launches(HtmlPage& page, const BenchReport& report) {
  std::vector<HtmlPage::Row> rows;
  for (const BenchPoint& point : report.points) {
    for (std::size_t i = 0; i < point.launch_ms.size(); ++i) {
      rows.push_back({{point.name, point.launch_names[i], milliseconds(support::spread(point.launch_ms[i]).median)}, false});
    }
  }
  if (rows.empty()) return;
  page.heading("Launches");
  page.table({{"shape", Kind::code}, {"kernel", Kind::code}, {"median ms", Kind::number}}, rows);
}

}  // namespace

HtmlPage html_of(const BenchReport& report) {
  HtmlPage page("Sparse MLA prefill on " + report.device.name);
  std::vector<HtmlPage::Fact> facts{
      {"Device", fmt::format("{} ({}), driver {}, {}", report.device.name, report.device.target.name(),
                             report.driver.empty() ? "none" : report.driver, report.compiler)},
      {"Date", fmt::format("{}, kernwright {}", report.date, report.version)},
      {"Timing", fmt::format("median of {} after {} warm-ups, measured twice", report.repetitions, report.warm_ups)}};
  if (report.peak_tflops > 0 || report.peak_tbps > 0) {
    facts.push_back({"Floor", fmt::format("operations at {} TFLOP/s, bytes at {} TB/s", report.peak_tflops, report.peak_tbps)});
  }
  for (const BenchPeer& peer : report.peers) facts.push_back({"Peer", fmt::format("{}, from {}", peer.name, peer.file)});
  page.facts(facts);
  if (report.device.id.backend == BackendKind::host) {
    page.paragraph("These are times of Kernwright's interpreter on a CPU, not a GPU's.");
  }
  page.heading("Speed by shape");
  speeds(page, report);
  point_table(page, report);
  noise(page, report);
  launches(page, report);
  page.heading("Kernels");
  std::vector<HtmlPage::Row> kernels;
  for (const PrepareReport& kernel : report.kernels) {
    kernels.push_back({{kernel.template_name, kernel.specialisation.text(), kernel.tile_fitted.text(),
                        kernel.target.is_host() ? std::string("-") : std::to_string(kernel.resources.registers), kernel.fit_reason},
                       false});
  }
  page.table(
      {{"template", Kind::code}, {"specialisation", Kind::code}, {"tile", Kind::code}, {"registers", Kind::number}, {"", Kind::prose}},
      kernels);
  page.data(json_document(report));
  return page;
}

}  // namespace kernwright::tool
