#include "run_paged_kv.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "paged_kv_pool_run.hpp"
#include "pool_words.hpp"
#include "support/progress.hpp"
#include "support/safetensors.hpp"
#include "target_choice.hpp"
#include "tile_word.hpp"

namespace kernwright::tool {
namespace {

Result<PagedKvInput> load_input(const RunPagedKvOptions& options, bool on_gpu) {
  if (!options.input_file.empty()) return read_paged_kv_input(options.input_file);
  // On the interpreter a problem of a second; on a GPU one that fills it.
  PagedKvShape shape;
  shape.batch = options.batch.value_or(on_gpu ? 24 : 8);
  shape.tokens = options.tokens.value_or(on_gpu ? 4096 : 100);
  shape.page_size = options.page_size.value_or(on_gpu ? 64 : 16);
  shape.layers = options.layers.value_or(3);
  shape.heads = options.heads.value_or(on_gpu ? 16 : 2);
  shape.query_tokens = options.query_tokens.value_or(1);
  shape.seed = options.seed.value_or(1);
  return generate_paged_kv_input(shape);
}

Result<> write_output(const std::string& file, const PagedKvReport& report) {
  std::vector<support::SafetensorsTensor> tensors;
  const auto rows = report.batch * report.query_tokens * report.heads;
  for (const PagedKvPoolReport& pool : report.pools) {
    const auto add = [&](const char* name, DType dtype, std::vector<std::int64_t> shape, std::span<const std::byte> bytes) {
      tensors.push_back({fmt::format("{}.{}", pool_word(pool.kind), name), dtype, std::move(shape), bytes});
    };
    const auto count = [](const auto& values) { return static_cast<std::int64_t>(values.size()); };
    add("block_table", DType::i32, {report.batch, count(pool.block_table) / report.batch}, std::as_bytes(std::span(pool.block_table)));
    add("token_indices", DType::i64, {count(pool.token_indices)}, std::as_bytes(std::span(pool.token_indices)));
    add("write_locations", DType::i64, {count(pool.write_locations)}, std::as_bytes(std::span(pool.write_locations)));
    add("out", DType::bf16, {report.batch, report.query_tokens, report.heads, count(pool.out) / rows}, std::as_bytes(std::span(pool.out)));
    add("lse", DType::f32, {report.batch, report.query_tokens, report.heads}, std::as_bytes(std::span(pool.lse)));
  }
  return support::write_safetensors(file, tensors, {{"target", report.device.target.name()}});
}

Result<PagedKvReport> run(const RunPagedKvOptions& options) {
  const auto kinds = parse_pools(options.pools);
  if (!kinds) return fail(Error(kinds.error()));
  PagedKvRunOptions run_options;
  run_options.check = options.check;
  auto tile = parse_tile(options.tile);
  if (!tile) return fail(std::move(tile.error()));
  run_options.tile = std::move(*tile);
  auto runtime = Runtime::create(runtime_options(options.output, options.template_folder));
  if (!runtime) return fail(std::move(runtime.error()));
  auto chosen = choose_device(*runtime, target_word(options.target, "auto"));
  if (!chosen) return fail(std::move(chosen.error()));
  if (!chosen->note.empty()) note(options.output, chosen->note);

  support::Progress progress(support::progress_style(options.output.quiet), "run paged-kv", 1 + std::ssize(*kinds));
  PagedKvReport report;
  report.device = chosen->device;
  progress.working_on(options.input_file.empty() ? "generating input" : "reading " + options.input_file);
  auto input = load_input(options, report.device.id.backend == BackendKind::cuda);
  if (!input) return fail(std::move(input.error()));
  report.input = input->description;
  report.batch = input->batch.lanes();
  report.tokens = input->batch.offsets().back();
  report.page_size = input->page_size;
  report.layers = input->layers;
  report.virtual_pages = input->virtual_pages;
  report.heads = input->heads;
  report.query_tokens = input->query_tokens;
  report.d_qk = input->d_qk;
  report.checked = options.check;
  progress.step("input is ready");
  for (const PoolKind kind : *kinds) {
    progress.working_on(fmt::format("{} pool", pool_word(kind)));
    auto pool = PagedKvPoolRun(*runtime, report.device.id, *input, run_options).run(kind);
    if (!pool) return fail(std::move(pool.error()));
    report.pools.push_back(std::move(*pool));
    progress.step(fmt::format("{} pool", pool_word(kind)));
  }
  if (!options.output_file.empty()) {
    if (auto written = write_output(options.output_file, report); !written)
      return fail(std::move(written.error()).within("writing --output"));
    report.output = options.output_file;
  }
  if (!options.write_list.empty()) {
    if (auto written = runtime->write_launch_list(options.write_list); !written)
      return fail(std::move(written.error()).within("writing --write-list"));
  }
  return report;
}

}  // namespace

ExitCode run_paged_kv(const RunPagedKvOptions& options) {
  const Result<PagedKvReport> report = run(options);
  if (!report) return report_error(report.error());
  const bool wrong = report->checked && !report->passed();
  return finish(options.output.json ? json_of(*report) : text_of(*report), wrong ? ExitCode::wrong : ExitCode::done);
}

}  // namespace kernwright::tool
