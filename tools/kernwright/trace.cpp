#include "trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "json_document.hpp"
#include "ops/sparse_mla_options.hpp"
#include "sparse_mla_input.hpp"
#include "support/text_table.hpp"
#include "support/union_sizes.hpp"
#include "target_choice.hpp"
#include "text_lines.hpp"

namespace kernwright::tool {
namespace {

constexpr std::int64_t kTileRows = 64;  // the height that the matrix units fill, as unmeasured_group() has it
constexpr double kLeastGain = 1.05;     // what the model leaves out (the union's building) is not free
constexpr std::string_view kCost = "union rows x ceil(G x heads / 64) / G a token";

struct TracedGroup {
  int size = 0;
  support::SizeSummary rows;
  double ratio = 0;  ///< Mean rows over those of one token.
  double cost = 0;   ///< Rows a token.
  double gain = 0;   ///< The cost per token, without union, over this one.
  [[nodiscard]] bool pays() const { return gain >= kLeastGain; }
};

struct TraceReport {
  std::string file;
  std::int64_t tokens = 0, heads = 0, kv_rows = 0, topk = 0;
  double rows_a_token = 0, cost_without = 0;
  std::vector<TracedGroup> groups;
  int best = 0;  ///< 0: none pays.
  std::string device;
  UnionChoice automatic;
};

Result<TraceReport> make_report(const TraceOptions& options) {
  const auto input = read_sparse_mla_input(options.file, SparseMlaParts::selection);
  if (!input) return fail(Error(input.error()));
  TraceReport report;
  report.file = options.file;
  report.tokens = input->tokens;
  report.heads = input->heads;
  report.kv_rows = input->kv_rows;
  report.topk = input->topk;
  const support::Selection selection{input->indices, input->topk_length, input->tokens, input->topk, input->kv_rows};
  const std::int64_t slots = support::selected_slots(selection);
  if (input->tokens > 0) report.rows_a_token = static_cast<double>(slots) / static_cast<double>(input->tokens);
  report.cost_without = support::rows_per_token(slots, input->tokens, 1, input->heads, kTileRows);
  double best_gain = 0;
  for (const int size : {2, 4, 8, 16}) {
    const std::vector<std::int64_t> sizes = support::union_sizes(selection, size);
    TracedGroup group;
    group.size = size;
    group.rows = support::summarize(sizes);
    std::int64_t gathered = 0;
    for (const std::int64_t each : sizes) gathered += each;
    if (report.rows_a_token > 0) group.ratio = group.rows.mean / report.rows_a_token;
    group.cost = support::rows_per_token(gathered, input->tokens, size, input->heads, kTileRows);
    if (group.cost > 0) group.gain = report.cost_without / group.cost;
    if (group.pays() && group.gain > best_gain) {
      best_gain = group.gain;
      report.best = size;
    }
    report.groups.push_back(group);
  }

  auto runtime = Runtime::create(runtime_options(options.output));
  if (!runtime) return fail(std::move(runtime.error()));
  auto chosen = choose_device(*runtime, target_word(options.target, "auto"));
  if (!chosen) return fail(std::move(chosen.error()));
  SparseMlaPrefillOptions op;
  op.heads = static_cast<int>(input->heads);
  op.d_qk = static_cast<int>(input->d_qk);
  auto automatic = choose_union(runtime->state(), op, chosen->device);
  if (!automatic) return fail(std::move(automatic.error()));
  report.device = fmt::format("{} ({})", chosen->device.name, chosen->device.target.name());
  report.automatic = std::move(*automatic);
  return report;
}

std::string text_of(const TraceReport& report) {
  using Align = support::TextTable::Align;
  std::string text = line("input", fmt::format("{}: {} tokens, {} heads, {} KV rows, K = {}", report.file, report.tokens, report.heads,
                                               report.kv_rows, report.topk));
  text += line("a token", fmt::format("{:.1f} rows, without a union at a cost of {:.1f}", report.rows_a_token, report.cost_without));
  support::TextTable table({{"G", Align::right},
                            {"groups", Align::right},
                            {"mean rows", Align::right},
                            {"p50", Align::right},
                            {"p99", Align::right},
                            {"max", Align::right},
                            {"x a token's", Align::right},
                            {"cost", Align::right},
                            {"gain", Align::right},
                            {"pays", Align::left}},
                           0);
  for (const TracedGroup& group : report.groups) {
    table.row({std::to_string(group.size), std::to_string(group.rows.groups), fmt::format("{:.1f}", group.rows.mean),
               std::to_string(group.rows.p50), std::to_string(group.rows.p99), std::to_string(group.rows.largest),
               fmt::format("{:.2f}", group.ratio), fmt::format("{:.1f}", group.cost), fmt::format("{:.2f}", group.gain),
               group.pays() ? (group.size == report.best ? "yes, most" : "yes") : "no"});
  }
  text += fmt::format("\n{}\n", table.text());
  text += line("would pay", report.best == 0
                                ? fmt::format("none of them: no G saves 5% of the cost ({})", kCost)
                                : fmt::format("G = {}, by the cost model: {}; building the union not counted", report.best, kCost));
  const std::string automatic = report.automatic.group_size == 0 ? "off" : std::to_string(report.automatic.group_size);
  return text + line("--union",
                     fmt::format("auto means {} for {} heads on {}; {}", automatic, report.heads, report.device, report.automatic.reason));
}

std::string json_of(const TraceReport& report) {
  Json groups = Json::array();
  for (const TracedGroup& group : report.groups) {
    groups.push_back({{"group_size", group.size},
                      {"groups", group.rows.groups},
                      {"mean", group.rows.mean},
                      {"p50", group.rows.p50},
                      {"p99", group.rows.p99},
                      {"max", group.rows.largest},
                      {"ratio", group.ratio},
                      {"cost", group.cost},
                      {"gain", group.gain},
                      {"pays", group.pays()}});
  }
  return document({{"input", report.file},
                   {"tokens", report.tokens},
                   {"heads", report.heads},
                   {"kv_rows", report.kv_rows},
                   {"topk", report.topk},
                   {"rows_a_token", report.rows_a_token},
                   {"cost_model", kCost},
                   {"cost_without_union", report.cost_without},
                   {"groups", std::move(groups)},
                   {"would_pay", report.best},
                   {"device", report.device},
                   {"auto", report.automatic.group_size},
                   {"auto_reason", report.automatic.reason}});
}

}  // namespace

ExitCode trace(const TraceOptions& options) {
  const auto report = make_report(options);
  if (!report) return report_error(report.error());
  return finish(options.output.json ? json_of(*report) : text_of(*report), ExitCode::done);
}

}  // namespace kernwright::tool
