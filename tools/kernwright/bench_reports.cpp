// How a benchmark is shown: a table of 100 columns, and a JSON document with every sample.
#include <fmt/format.h>

#include "bench_json.hpp"
#include "support/text_table.hpp"
#include "text_lines.hpp"

namespace kernwright::tool {
namespace {

Json spread_json(const std::vector<double>& samples) {
  const support::Spread spread = support::spread(samples);
  return {{"median_ms", spread.median}, {"min_ms", spread.smallest}, {"max_ms", spread.largest}, {"samples_ms", samples}};
}

}  // namespace

std::string text_of(const BenchReport& report) {
  std::string text = fmt::format("device   {} ({}), driver {}, {}\n", report.device.name, report.device.target.name(),
                                 report.driver.empty() ? "none" : report.driver, report.compiler);
  text += fmt::format("date     {}, kernwright {}\n", report.date, report.version);
  const bool on_gpu = report.device.id.backend == BackendKind::cuda;
  text += fmt::format("timing   median of {} after {}, everything from the indices to the output{}\n", report.repetitions, report.warm_ups,
                      on_gpu ? ", inputs rotated past the L2 cache" : "");
  if (report.peak_tflops > 0 || report.peak_tbps > 0) {
    text += fmt::format("floor    the larger of operations at {} TFLOP/s and bytes at {} TB/s\n", report.peak_tflops, report.peak_tbps);
  }
  for (const PrepareReport& kernel : report.kernels) {
    text += fmt::format("kernel   {} {}: {}{}\n", kernel.template_name, kernel.specialisation.text(), kernel.tile_fitted.text(),
                        registers_text(kernel));
  }
  text += fmt::format("\n{:<24} {:>3} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}\n", "shape", "G", "union", "total ms", "spread %",
                      "control %", "floor ms", "x floor", "check");
  for (const BenchPoint& point : report.points) {
    const support::Spread total = support::spread(point.total_ms), control = support::spread(point.control_ms);
    const auto percent = [&](double part) {
      return total.median > 0 ? fmt::format("{:.1f}", 100 * part / total.median) : std::string("-");
    };
    text += fmt::format("{:<24.24} {:>3} {:>6.2f} {:>9.4f} {:>9} {:>9} {:>9} {:>9} {:>6}\n", point.name, point.union_used,
                        point.work.relative_union, total.median, percent(total.largest - total.smallest),
                        percent(control.median - total.median), point.floor_ms > 0 ? fmt::format("{:.4f}", point.floor_ms) : "-",
                        point.floor_ms > 0 ? fmt::format("{:.2f}", total.median / point.floor_ms) : "-",
                        point.check.passed ? "right" : "WRONG");
  }
  for (const BenchPoint& point : report.points) {
    if (!point.check.passed) text += fmt::format("{}: {}\n", point.name, point.check.first_failure);
  }
  for (const BenchPeer& peer : report.peers) {
    text += fmt::format("\n{:<24.24} {:>9} {:>9}\n", support::printable(peer.name), "peer ms", "x ours");
    for (const BenchPoint& point : report.points) {
      const double ours = support::spread(point.total_ms).median, theirs = peer.median_of(point.name);
      if (theirs <= 0 || ours <= 0) continue;
      text += fmt::format("{:<24.24} {:>9.4f} {:>9.2f}\n", point.name, theirs, theirs / ours);
    }
  }
  return text;
}

Json json_document(const BenchReport& report) {
  Json points = Json::array();
  for (const BenchPoint& point : report.points) {
    Json launches = Json::array();
    for (std::size_t i = 0; i < point.launch_ms.size(); ++i) {
      Json launch = spread_json(point.launch_ms[i]);
      launch["template"] = point.launch_names[i];
      launches.push_back(std::move(launch));
    }
    points.push_back({{"name", point.name},
                      {"tokens", point.tokens},
                      {"heads", point.heads},
                      {"kv_rows", point.kv_rows},
                      {"topk", point.topk},
                      {"union_used", point.union_used},
                      {"tile", point.tile},
                      {"check",
                       {{"passed", point.check.passed},
                        {"tokens", point.checked_tokens},
                        {"worst_row_cosine", point.check.worst_row_cosine},
                        {"worst_row_rel_l2", point.check.worst_row_rel_l2},
                        {"bound_violations", point.check.bound_violations},
                        {"lse_max_abs", point.check.lse_max_abs},
                        {"first_failure", point.check.first_failure}}},
                      {"rotated_inputs", point.rotated_inputs},
                      {"total", spread_json(point.total_ms)},
                      {"control", spread_json(point.control_ms)},
                      {"launches", std::move(launches)},
                      {"gathered_rows", point.work.gathered_rows},
                      {"relative_union", point.work.relative_union},
                      {"operations", point.work.operations},
                      {"bytes", point.work.bytes},
                      {"floor_ms", point.floor_ms > 0 ? Json(point.floor_ms) : Json(nullptr)},
                      {"floor_by", point.floor_by.empty() ? Json(nullptr) : Json(point.floor_by)}});
  }
  Json kernels = Json::array();
  for (const PrepareReport& kernel : report.kernels) {
    kernels.push_back({{"template", kernel.template_name},
                       {"specialisation", kernel.specialisation.text()},
                       {"tile", kernel.tile_fitted.text()},
                       {"key", kernel.key},
                       {"registers", kernel.resources.registers},
                       {"spill_stores", kernel.resources.spill_stores.count},
                       {"spill_loads", kernel.resources.spill_loads.count}});
  }
  Json peers = Json::array();
  for (const BenchPeer& peer : report.peers) peers.push_back({{"name", peer.name}, {"file", peer.file}, {"median_ms", peer.median_ms}});
  return {{"format", 1},
          {"benchmark", "sparse-mla"},
          {"device", report.device.name},
          {"target", report.device.target.name()},
          {"driver", report.driver.empty() ? Json(nullptr) : Json(report.driver)},
          {"compiler", report.compiler},
          {"date", report.date},
          {"version", report.version},
          {"repetitions", report.repetitions},
          {"warm_ups", report.warm_ups},
          {"peak_tflops", report.peak_tflops > 0 ? Json(report.peak_tflops) : Json(nullptr)},
          {"peak_tbps", report.peak_tbps > 0 ? Json(report.peak_tbps) : Json(nullptr)},
          {"kernels", std::move(kernels)},
          {"points", std::move(points)},
          {"peers", std::move(peers)}};
}

std::string json_of(const BenchReport& report) {
  return document(json_document(report));
}

}  // namespace kernwright::tool
