// How a run of the paged KV kernels is shown.
#include <fmt/format.h>

#include "core/specialised_name.hpp"
#include "json_document.hpp"
#include "pool_words.hpp"
#include "run_paged_kv.hpp"
#include "support/format.hpp"
#include "support/text_table.hpp"
#include "text_lines.hpp"

namespace kernwright::tool {
namespace {

std::string step_result(const PagedKvStep& step, bool checked) {
  if (!checked || step.compared == 0) return "-";
  if (step.wrong == 0) return fmt::format("{} right", step.compared);
  return fmt::format("{} of {} WRONG", step.wrong, step.compared);
}

std::string kernel_text(const PrepareReport& kernel) {
  std::string text = fmt::format("{}: tile {}, {}", specialised_name(kernel.template_name, kernel.specialisation),
                                 kernel.tile_fitted.text(), cache_text(kernel));
  if (!kernel.fit_reason.empty()) text += fmt::format(" ({} does not fit: {})", kernel.tile_asked.text(), kernel.fit_reason);
  return text;
}

std::string attention_text(const PagedKvPoolReport& pool) {
  const support::SparseMlaCheck& check = *pool.attention;
  std::string text = line("attention", fmt::format("{}: {} rows, worst row cosine {:.8f}, {} elements beyond the bound, lse off by at most "
                                                   "{:.1e}",
                                                   check.passed ? "passed" : "FAILED", check.rows, check.worst_row_cosine,
                                                   check.bound_violations, check.lse_max_abs));
  if (!check.passed) text += more(check.first_failure);
  return text;
}

Json step_json(const PagedKvStep& step, bool checked) {
  Json json{{"name", step.name}, {"ms", step.ms}};
  json["compared"] = checked ? Json(step.compared) : Json(nullptr);
  json["wrong"] = checked ? Json(step.wrong) : Json(nullptr);
  json["first_wrong"] = text_or_null(step.first_wrong);
  return json;
}

Json pool_json(const PagedKvPoolReport& pool, bool checked) {
  Json steps = Json::array(), kernels = Json::array();
  for (const PagedKvStep& step : pool.steps) steps.push_back(step_json(step, checked));
  for (const PrepareReport& kernel : pool.kernels) {
    kernels.push_back({{"template", kernel.template_name},
                       {"specialisation", kernel.specialisation.text()},
                       {"tile_asked", kernel.tile_asked.text()},
                       {"tile_fitted", kernel.tile_fitted.text()},
                       {"fit_reason", kernel.fit_reason},
                       {"cache", to_string(kernel.cache)},
                       {"key", kernel.key},
                       {"compile_ms", kernel.compile_ms},
                       {"resources", resources_json(kernel.resources)}});
  }
  Json attention = nullptr;
  if (pool.attention) {
    const support::SparseMlaCheck& check = *pool.attention;
    attention = {{"worst_row_cosine", check.worst_row_cosine},
                 {"worst_row_rel_l2", check.worst_row_rel_l2},
                 {"bound_violations", check.bound_violations},
                 {"lse_max_abs", check.lse_max_abs},
                 {"rows", check.rows},
                 {"passed", check.passed},
                 {"first_failure", check.first_failure}};
  }
  return {{"pool", pool_word(pool.kind)},
          {"layers", pool.layers},
          {"pages", pool.pages},
          {"moved_pages", pool.moved_pages},
          {"steps", std::move(steps)},
          {"attention", std::move(attention)},
          {"same_bits_after_moves", checked && pool.kind != PoolKind::static_pool ? Json(pool.same_after_moves) : Json(nullptr)},
          {"launches", pool.launches},
          {"kernels", std::move(kernels)},
          {"passed", checked ? Json(pool.passed()) : Json(nullptr)}};
}

}  // namespace

std::string text_of(const PagedKvReport& report) {
  std::string text =
      line("input", fmt::format("{}: {} requests, {} tokens, {} virtual pages of {}, {} heads, s_q = {}", report.input, report.batch,
                                report.tokens, report.virtual_pages, report.page_size, report.heads, report.query_tokens));
  text += line("device", device_text(report.device));
  text += line("target", report.device.target.name());
  for (const PagedKvPoolReport& pool : report.pools) {
    text += line("pool", fmt::format("{}, L = {}, {} pages moved", pool_word(pool.kind), pool.layers, pool.moved_pages));
    using Align = support::TextTable::Align;
    support::TextTable table({{"step", Align::left}, {"time", Align::right}, {"elements", Align::left}}, 2);
    for (const PagedKvStep& step : pool.steps) {
      table.row({step.name, support::format_milliseconds(step.ms), step_result(step, report.checked)});
    }
    text += table.text();
    for (const PagedKvStep& step : pool.steps) {
      if (!step.first_wrong.empty()) text += more(fmt::format("{}: {}", step.name, step.first_wrong));
    }
    for (const PrepareReport& kernel : pool.kernels) {
      if (kernel.template_name.starts_with("paged_mla/")) text += line("kernel", kernel_text(kernel));
    }
    if (pool.attention) text += attention_text(pool);
    if (report.checked && !pool.same_after_moves) text += more("attention is not the same bits before and after pages moved");
  }
  if (report.checked) text += line("check", report.passed() ? "passed" : "FAILED");
  if (!report.output.empty()) text += line("output", report.output);
  return text;
}

std::string json_of(const PagedKvReport& report) {
  Json pools = Json::array();
  for (const PagedKvPoolReport& pool : report.pools) pools.push_back(pool_json(pool, report.checked));
  return document({{"device", report.device.name},
                   {"target", report.device.target.name()},
                   {"input", report.input},
                   {"batch", report.batch},
                   {"tokens", report.tokens},
                   {"page_size", report.page_size},
                   {"layers", report.layers},
                   {"virtual_pages", report.virtual_pages},
                   {"heads", report.heads},
                   {"query_tokens", report.query_tokens},
                   {"d_qk", report.d_qk},
                   {"pools", std::move(pools)},
                   {"check", report.checked ? Json{{"passed", report.passed()}} : Json(nullptr)},
                   {"output", text_or_null(report.output)}});
}

}  // namespace kernwright::tool
