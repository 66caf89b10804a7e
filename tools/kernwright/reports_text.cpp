// What people see.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "reports.hpp"
#include "support/format.hpp"
#include "text_lines.hpp"

namespace kernwright::tool {
namespace {

using support::format_bytes;
using support::format_milliseconds;

std::string check_text(const RunReport& report) {
  const support::SparseMlaCheck& check = *report.check;
  const auto at = [](const support::SparseMlaCheck::Row& row) {
    return row.token < 0 ? std::string() : fmt::format(" (token {}, head {})", row.token, row.head);
  };
  std::string text = line("check", fmt::format("{}: {} of {} tokens, {} rows against the CPU reference", check.passed ? "passed" : "FAILED",
                                               report.checked_tokens, report.tokens, check.rows));
  text += more(fmt::format("worst row cosine {:.8f}{}, worst row relative L2 {:.2e}{}", check.worst_row_cosine,
                           at(check.worst_row_cosine_at), check.worst_row_rel_l2, at(check.worst_row_rel_l2_at)));
  text += more(fmt::format("{} elements beyond the bound, the worst at {:.3f} of it{}; lse and max_logits off by at most {:.1e}{}",
                           check.bound_violations, check.worst_bound_ratio, at(check.worst_bound_at), check.lse_max_abs,
                           at(check.lse_worst_at)));
  if (!check.passed) text += more(check.first_failure);
  return text;
}

std::string recorded_text(const RecordedComparison& recorded) {
  if (recorded.differing == 0) {
    return line("recorded", fmt::format("bit for bit the recorded output, {} elements{}{}", recorded.elements,
                                        recorded.same_kernel ? "" : ", though recorded with another kernel: ", recorded.difference));
  }
  std::string text = line("recorded", fmt::format("{}: {} of {} elements differ from the recorded output, by up to {:.3g} in out; first {}",
                                                  recorded.passed() ? "passed" : "FAILED", recorded.differing, recorded.elements,
                                                  recorded.largest_difference, recorded.first));
  if (recorded.same_kernel) return text + more("the same target, tile and union computed it, so the bits should be the same");
  text += more(fmt::format("recorded with another kernel: {}", recorded.difference));
  return text + more(recorded.recorded_failure.empty() ? std::string("the recorded output is right by the CPU reference as well")
                                                       : "the recorded output is WRONG by the CPU reference: " + recorded.recorded_failure);
}

}  // namespace

std::string text_of(const RunReport& report) {
  std::string text = line("input", fmt::format("{}: {} tokens, {} heads, {} KV rows, K = {}, d_qk = {}", report.input, report.tokens,
                                               report.heads, report.kv_rows, report.topk, report.d_qk));
  text += line("device", device_text(report.device));
  text += line("target", report.device.target.name());
  text += line("union", fmt::format("{} (asked: {}){}{}", report.union_used == 0 ? "off" : std::to_string(report.union_used),
                                    report.union_asked ? std::to_string(*report.union_asked) : "auto",
                                    report.union_reason.empty() ? "" : ": ", report.union_reason));
  if (report.deterministic) text += line("mode", "deterministic: a token's result depends on its own inputs only");
  if (report.workspace.count > 0) text += line("workspace", format_bytes(report.workspace));
  for (const LaunchReport& launch : report.launches) {
    const PrepareReport& prepared = launch.prepared;
    text += line("launch", fmt::format("{}  {}", prepared.template_name, prepared.specialisation.text()));
    const bool same = prepared.tile_asked == prepared.tile_fitted;
    text += more(same ? fmt::format("tile {}, {}", prepared.tile_asked.text(), cache_text(prepared))
                      : fmt::format("tile {} does not fit, {} does, {}", prepared.tile_asked.text(), prepared.tile_fitted.text(),
                                    cache_text(prepared)));
    if (!prepared.fit_reason.empty()) {
      text += more(fmt::format("{}{}", prepared.fit_recorded ? "as recorded earlier: " : "because ", prepared.fit_reason));
    }
    text += more(fmt::format("{} × {} × {} blocks of {} threads, {} dynamic shared memory: {}", launch.grid.x, launch.grid.y, launch.grid.z,
                             launch.threads, format_bytes({static_cast<std::uint64_t>(launch.dynamic_shared)}),
                             format_milliseconds(launch.median_ms)));
  }
  text +=
      line("total", fmt::format("{}, median of {} after {} ({})", format_milliseconds(report.total_ms), report.repetitions, report.warm_ups,
                                report.device.id.backend == BackendKind::host ? "the interpreter's time, not a GPU's" : "events"));
  if (report.check) text += check_text(report);
  if (report.recorded) text += recorded_text(*report.recorded);
  if (!report.output.empty()) text += line("output", report.output);
  return text;
}

std::string text_of(const WarmReport& report) {
  const WarmSummary& summary = report.summary;
  std::string text;
  std::map<std::string, int> skipped;  // the same tile is too large for many specialisations, in the same words
  for (const WarmedItem& item : summary.items) {
    if (item.outcome == WarmOutcome::failed) {
      text += fmt::format("failed   {} {} {} {}\n         {}\n", item.target.name(), item.template_name, item.specialisation.text(),
                          item.tile.variant.empty() ? "" : item.tile.text(), item.reason);
    } else if (item.outcome == WarmOutcome::skipped) {
      ++skipped[fmt::format("{} {} {}: {}", item.target.name(), item.template_name, item.tile.text(), item.reason)];
    }
  }
  for (const auto& [what, count] : skipped)
    text += fmt::format("skipped  {}{}\n", what, count > 1 ? fmt::format(" ({} kernels)", count) : "");
  text += fmt::format("{}\n{}: {} built, {} hit, {} skipped (above the target's limits), {} failed; {}: {} built, {} hit\n", report.list,
                      counted(summary.items.size() + summary.not_begun, "kernel", "kernels"), summary.built, summary.hit, summary.skipped,
                      summary.failed, counted(summary.plans_built + summary.plans_hit, "plan table", "plan tables"), summary.plans_built,
                      summary.plans_hit);
  if (report.signal != 0) {
    text += fmt::format("interrupted: {} not begun; the same command goes on from here\n",
                        counted(summary.not_begun, "kernel was", "kernels were"));
  }
  text += fmt::format("in {}, {} at once ({}), each core {:.0f}% busy\n", format_milliseconds(summary.seconds * 1000), summary.jobs,
                      report.jobs_reason, report.busy() * 100);
  text += fmt::format("store: {}\n", report.store);
  if (summary.not_stored > 0) text += fmt::format("The store took {} of the artifacts not: see the warning for why.\n", summary.not_stored);
  return text;
}

}  // namespace kernwright::tool
