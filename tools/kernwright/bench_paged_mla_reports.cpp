// How the benchmark of paged MLA decode is shown: a table of 100 columns, and a JSON document with every sample.
#include <fmt/format.h>

#include "bench_paged_mla.hpp"
#include "json_document.hpp"
#include "pool_words.hpp"
#include "support/format.hpp"
#include "support/spread.hpp"
#include "text_lines.hpp"

namespace kernwright::tool {
namespace {

Json spread_json(const std::vector<double>& samples, std::string_view unit) {
  const support::Spread spread = support::spread(samples);
  return {{fmt::format("median_{}", unit), spread.median},
          {fmt::format("min_{}", unit), spread.smallest},
          {fmt::format("max_{}", unit), spread.largest},
          {fmt::format("samples_{}", unit), samples}};
}

struct Rates {
  double tbps = 0, of_copy = 0, tflops = 0, of_matrix = 0;
};
Rates rates(const PagedMlaBenchReport& report, const PagedMlaBenchPoint& point) {
  const double us = support::spread(point.timing.each_us).median, copy = support::spread(report.copy_tbps).median;
  Rates rates;
  if (us <= 0) return rates;
  rates.tbps = point.bytes / (us * 1e6);
  rates.of_copy = copy > 0 ? rates.tbps / copy : 0;
  rates.tflops = point.operations / (us * 1e6);
  rates.of_matrix = report.matrix_tflops > 0 ? rates.tflops / report.matrix_tflops : 0;
  return rates;
}

std::string percent_or_dash(double part) {
  return part > 0 ? fmt::format("{:.1f}", 100 * part) : "-";
}

std::string spread_percent(const support::Spread& spread) {
  return spread.median > 0 ? fmt::format("{:.1f}", 100 * (spread.largest - spread.smallest) / spread.median) : "-";
}

/// What the same batch takes on a static pool, where that was measured too.
double static_us(const PagedMlaBenchReport& report, const PagedMlaBenchPoint& point) {
  if (point.pool == PoolKind::static_pool) return 0;
  for (const PagedMlaBenchPoint& other : report.points) {
    if (other.pool == PoolKind::static_pool && other.shape.name() == point.shape.name())
      return support::spread(other.timing.each_us).median;
  }
  return 0;
}

std::string point_rows(const PagedMlaBenchReport& report) {
  std::string text = fmt::format("{:<16} {:<7} {:>3} {:>10} {:>8} {:>7} {:>6} {:>8} {:>8} {:>9} {:>6}\n", "H:B x tokens", "pool", "L",
                                 "median us", "spread %", "TB/s", "copy %", "TFLOP/s", "matrix %", "x static", "check");
  for (const PagedMlaBenchPoint& point : report.points) {
    const support::Spread us = support::spread(point.timing.each_us);
    const Rates rate = rates(report, point);
    const double other = static_us(report, point);
    text += fmt::format("{:<16} {:<7} {:>3} {:>10.2f} {:>8} {:>7.3f} {:>6} {:>8.1f} {:>8} {:>9} {:>6}\n", point.shape.name(),
                        pool_word(point.pool), point.layers, us.median, spread_percent(us), rate.tbps, percent_or_dash(rate.of_copy),
                        rate.tflops, percent_or_dash(rate.of_matrix), other > 0 ? fmt::format("{:.3f}", us.median / other) : "-",
                        point.check.passed ? "right" : "WRONG");
  }
  for (const PagedMlaBenchPoint& point : report.points) {
    if (!point.check.passed) text += fmt::format("{}, {}: {}\n", point.shape.name(), pool_word(point.pool), point.check.first_failure);
  }
  return text;
}

Json point_json(const PagedMlaBenchReport& report, const PagedMlaBenchPoint& point) {
  const Rates rate = rates(report, point);
  const double other = static_us(report, point);
  const double us = support::spread(point.timing.each_us).median;
  const auto or_null = [](double value) { return value > 0 ? Json(value) : Json(nullptr); };
  return {{"name", point.shape.name()},
          {"heads", point.shape.heads},
          {"batch", point.shape.batch},
          {"tokens", point.shape.tokens},
          {"pool", pool_word(point.pool)},
          {"layers", point.layers},
          {"moved_pages", point.moved_pages},
          {"rotated_batches", point.sets},
          {"tile", point.tile},
          {"check",
           {{"passed", point.check.passed},
            {"requests", point.checked_requests},
            {"worst_row_cosine", point.check.worst_row_cosine},
            {"worst_bound_ratio", point.check.worst_bound_ratio},
            {"bound_violations", point.check.bound_violations},
            {"lse_max_abs", point.check.lse_max_abs},
            {"first_failure", point.check.first_failure}}},
          {"runs_a_sample", point.timing.operations},
          {"time", spread_json(point.timing.each_us, "us")},
          {"bytes", point.bytes},
          {"operations", point.operations},
          {"tbps", or_null(rate.tbps)},
          {"of_copy_bandwidth", or_null(rate.of_copy)},
          {"tflops", or_null(rate.tflops)},
          {"of_matrix_rate", or_null(rate.of_matrix)},
          {"of_static_time", other > 0 ? Json(us / other) : Json(nullptr)}};
}

}  // namespace

std::string text_of(const PagedMlaBenchReport& report) {
  const bool on_gpu = report.device.id.backend == BackendKind::cuda;
  std::string text = fmt::format("device   {} ({}), driver {}, {}\n", report.device.name, report.device.target.name(),
                                 report.driver.empty() ? "none" : report.driver, report.compiler);
  text += fmt::format("date     {}, kernwright {}\n", report.date, report.version);
  text += fmt::format("timing   median of {} batches of runs back to back{} after {}, merge included\n", report.repetitions,
                      report.graph ? " in a graph" : "", report.warm_ups);
  text += fmt::format("pages    {} tokens; {} new {} a request; {}\n", report.page_size, report.query_tokens,
                      report.query_tokens == 1 ? "token" : "tokens", on_gpu ? "batches rotated past the L2 cache" : "two batches in turn");
  const support::Spread copy = support::spread(report.copy_tbps);
  text += fmt::format("copy     {:.3f} TB/s read and written, {:.3f} to {:.3f}, {} at once, in this run\n", copy.median, copy.smallest,
                      copy.largest, support::format_bytes(report.copied));
  if (report.matrix_tflops > 0) text += fmt::format("matrix   {} TFLOP/s, not measured in this run\n", report.matrix_tflops);
  for (const PrepareReport& kernel : report.kernels) {
    text += fmt::format("kernel   {} {}{}\n         {}\n", kernel.template_name, kernel.tile_fitted.text(), registers_text(kernel),
                        kernel.specialisation.text());
  }
  for (const BlockTableBenchPoint& point : report.block_tables) {
    const support::Spread us = support::spread(point.timing.each_us);
    text += fmt::format("{} {} x {} tokens, {}, ids {}: {}\n", "block table", point.shape.batch, point.shape.tokens, pool_word(point.pool),
                        to_string(point.ids),
                        point.wrong_cells > 0 ? fmt::format("WRONG in {} cells", point.wrong_cells)
                                              : fmt::format("{:.2f} us, spread {}%, right", us.median, spread_percent(us)));
  }
  return text + "\n" + point_rows(report);
}

std::string json_of(const PagedMlaBenchReport& report) {
  Json points = Json::array(), tables = Json::array(), kernels = Json::array();
  for (const PagedMlaBenchPoint& point : report.points) points.push_back(point_json(report, point));
  for (const BlockTableBenchPoint& point : report.block_tables) {
    tables.push_back({{"batch", point.shape.batch},
                      {"tokens", point.shape.tokens},
                      {"pool", pool_word(point.pool)},
                      {"ids", to_string(point.ids)},
                      {"rotated_batches", point.sets},
                      {"wrong_cells", point.wrong_cells},
                      {"runs_a_sample", point.timing.operations},
                      {"time", spread_json(point.timing.each_us, "us")}});
  }
  for (const PrepareReport& kernel : report.kernels) {
    kernels.push_back({{"template", kernel.template_name},
                       {"specialisation", kernel.specialisation.text()},
                       {"tile", kernel.tile_fitted.text()},
                       {"key", kernel.key},
                       {"resources", resources_json(kernel.resources)}});
  }
  Json copy = spread_json(report.copy_tbps, "tbps");
  copy["bytes"] = report.copied.count;
  const Json json{{"format", 1},
                  {"benchmark", "paged-mla"},
                  {"device", report.device.name},
                  {"target", report.device.target.name()},
                  {"l2_bytes", report.device.l2.count},
                  {"driver", text_or_null(report.driver)},
                  {"compiler", report.compiler},
                  {"date", report.date},
                  {"version", report.version},
                  {"repetitions", report.repetitions},
                  {"warm_ups", report.warm_ups},
                  {"seed", report.seed},
                  {"launches", report.graph ? "graph" : "stream"},
                  {"page_size", report.page_size},
                  {"query_tokens", report.query_tokens},
                  {"copy", std::move(copy)},
                  {"matrix_tflops", report.matrix_tflops > 0 ? Json(report.matrix_tflops) : Json(nullptr)},
                  {"kernels", std::move(kernels)},
                  {"block_tables", std::move(tables)},
                  {"points", std::move(points)}};
  return document(json);
}

}  // namespace kernwright::tool
