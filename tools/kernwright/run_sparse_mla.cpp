#include "run_sparse_mla.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "host_memory.hpp"
#include "kernwright/sparse_mla_prefill.hpp"
#include "reports.hpp"
#include "sparse_mla_tensors.hpp"
#include "sparse_mla_words.hpp"
#include "support/progress.hpp"
#include "support/safetensors.hpp"
#include "support/spread.hpp"
#include "target_choice.hpp"
#include "tile_word.hpp"

namespace kernwright::tool {
namespace {

constexpr double kRemoteSeconds = 5;  // for what the remote cache has not taken yet

/// Runs the op with events around it and behind each launch, and fills the report's times.
Result<> measure(const Runtime& runtime, const SparseMlaPrefill& op, const SparseMlaPrefillArguments& arguments, RunReport& report,
                 support::Progress& progress) {
  const DeviceId device = report.device.id;
  Result<Stream> stream = runtime.create_stream(device);
  if (!stream) return fail(std::move(stream.error()));
  Result<Event> start = runtime.create_event(device);
  if (!start) return fail(std::move(start.error()));
  std::vector<Event> marks;
  for (std::size_t i = 0; i < report.launches.size(); ++i) {
    Result<Event> mark = runtime.create_event(device);
    if (!mark) return fail(std::move(mark.error()));
    marks.push_back(std::move(*mark));
  }
  std::vector<double> totals;
  std::vector<std::vector<double>> each(marks.size());
  for (int run = 0; run < report.warm_ups + report.repetitions; ++run) {
    progress.working_on(fmt::format("run {} of {}", run + 1, report.warm_ups + report.repetitions));
    Result<> done = start->record(stream->handle());
    if (done) done = op.run_timed(arguments, stream->handle(), marks);
    if (done) done = stream->synchronize();
    if (!done) return fail(std::move(done.error()).within("running sparse MLA prefill"));
    if (run < report.warm_ups) continue;
    for (std::size_t i = 0; i < marks.size(); ++i) {
      const Result<double> ms = marks[i].milliseconds_since(i == 0 ? *start : marks[i - 1]);
      if (!ms) return fail(Error(ms.error()));
      each[i].push_back(*ms);
    }
    const Result<double> total = marks.empty() ? Result<double>(0.0) : marks.back().milliseconds_since(*start);
    if (!total) return fail(Error(total.error()));
    totals.push_back(*total);
  }
  report.total_ms = support::spread(totals).median;
  for (std::size_t i = 0; i < each.size(); ++i) report.launches[i].median_ms = support::spread(each[i]).median;
  return {};
}

Result<SparseMlaInput> load_input(const RunSparseMlaOptions& options, bool on_gpu) {
  if (!options.input_file.empty()) return read_sparse_mla_input(options.input_file);
  support::WalkOptions walk;
  // On the interpreter a problem of seconds that still has unions; on a GPU one of the sizes that docs/kernels.md measures.
  walk.tokens = options.tokens.value_or(on_gpu ? 4096 : 64);
  walk.topk = options.topk.value_or(on_gpu ? 2048 : 32);
  walk.batch = options.batch.value_or(1);
  walk.kv_rows = options.kv_rows;
  walk.churn = options.churn.value_or(0.05);
  walk.seed = options.seed.value_or(1);
  return generate_sparse_mla_input(walk, options.heads.value_or(8));
}

Result<> write_output(const RunSparseMlaOptions& options, const SparseMlaInput& input, const HostOutput& output, const RunReport& report) {
  const std::array<support::SafetensorsTensor, 3> tensors{
      support::SafetensorsTensor{"out", DType::bf16, {input.tokens, input.heads, kValueColumns}, std::as_bytes(std::span(output.out))},
      support::SafetensorsTensor{"max_logits", DType::f32, {input.tokens, input.heads}, std::as_bytes(std::span(output.max_logits))},
      support::SafetensorsTensor{"lse", DType::f32, {input.tokens, input.heads}, std::as_bytes(std::span(output.lse))},
  };
  return support::write_safetensors(options.output_file, tensors,
                                    {{"sm_scale", fmt::format("{}", input.sm_scale)}, {"target", report.device.target.name()}});
}

/// What the op launches for this input; times that are there already stay.
void describe_launches(const SparseMlaPrefill& op, const SparseMlaInput& input, RunReport& report) {
  const std::vector<PrepareReport> prepared = op.reports();
  const std::vector<SparseMlaPrefill::LaunchShape> shapes = op.launch_shapes(input.tokens, input.topk, input.kv_rows);
  report.launches.resize(shapes.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    LaunchReport& launch = report.launches[i];
    const auto found = std::ranges::find(prepared, shapes[i].template_name, &PrepareReport::template_name);
    if (found != prepared.end()) launch.prepared = *found;
    launch.grid = shapes[i].grid;
    launch.threads = shapes[i].threads;
    launch.dynamic_shared = shapes[i].dynamic_shared;
  }
}

/// The recorded call's choices where the words make none. A tile is of its target alone.
void replay(const SparseMlaRecording& recorded, const RunSparseMlaOptions& words, const Target& target, SparseMlaPrefillOptions& options) {
  if (words.union_word.empty() && !words.deterministic) {
    options.group_size = recorded.union_used;
    options.deterministic = recorded.deterministic;
  }
  if (words.tile.empty() && recorded.target == target.name()) options.tile = recorded.tile;
}

RecordedComparison compare_recorded(const SparseMlaInput& input, const HostOutput& output, const RunReport& report,
                                    const RunSparseMlaOptions& options) {
  const SparseMlaRecording& recorded = *input.recorded;
  RecordedComparison comparison = compare_bits(recorded, output, input.heads);
  const Tile& tile = report.launches.back().prepared.tile_fitted;
  const auto differs = [&](std::string_view what, const std::string& there, const std::string& here) {
    if (there == here) return;
    comparison.difference += fmt::format("{}{} {} there, {} here", comparison.difference.empty() ? "" : "; ", what, there, here);
  };
  differs("target", recorded.target, report.device.target.name());
  differs("tile", recorded.tile.text(), tile.text());
  differs("union", std::to_string(recorded.union_used), std::to_string(report.union_used));
  comparison.same_kernel = comparison.difference.empty();
  if (comparison.same_kernel) return comparison;
  // What another kernel rounded otherwise is not wrong for it: the reference says.
  HostOutput there{recorded.out, recorded.max_logits, recorded.lse};
  if (there.max_logits.empty()) there.max_logits = output.max_logits;
  if (there.lse.empty()) there.lse = output.lse;
  comparison.recorded_failure = check_output(input, there, recorded.union_used, options.seed.value_or(1)).check.first_failure;
  return comparison;
}

Result<RunReport> run(const RunSparseMlaOptions& options) {
  Result<std::optional<int>> group = parse_union(options.union_word.empty() ? "auto" : options.union_word, options.deterministic);
  if (!group) return fail(std::move(group.error()));
  SparseMlaPrefillOptions op_options;
  op_options.group_size = *group;
  op_options.deterministic = options.deterministic;
  Result<std::optional<Tile>> tile = parse_tile(options.tile);
  if (!tile) return fail(std::move(tile.error()));
  op_options.tile = std::move(*tile);

  Result<Runtime> runtime = Runtime::create(runtime_options(options.output, options.template_folder));
  if (!runtime) return fail(std::move(runtime.error()));
  Result<ChosenDevice> chosen = choose_device(*runtime, target_word(options.target, "auto"));
  if (!chosen) return fail(std::move(chosen.error()));
  if (!chosen->note.empty()) note(options.output, chosen->note);
  const bool on_gpu = chosen->device.id.backend == BackendKind::cuda;

  support::Progress progress(support::progress_style(options.output.quiet), "run sparse-mla", options.check ? 4 : 3);
  RunReport report;
  report.device = chosen->device;
  progress.working_on(options.input_file.empty() ? "generating input" : "reading " + options.input_file);
  Result<SparseMlaInput> input = load_input(options, on_gpu);
  if (!input) return fail(std::move(input.error()));
  const double output_bytes = static_cast<double>(input->tokens * input->heads) * (2 * kValueColumns + 8);
  const double copies = on_gpu ? 1 : 2;  // The interpreter's device memory is this machine's.
  if (Result<> enough = require_host_memory(copies * output_bytes, "the output"); !enough) return fail(std::move(enough.error()));
  report.input = input->description;
  report.tokens = input->tokens;
  report.heads = input->heads;
  report.kv_rows = input->kv_rows;
  report.topk = input->topk;
  report.d_qk = input->d_qk;
  progress.step("input is ready");

  op_options.device = report.device.id;
  op_options.heads = static_cast<int>(input->heads);
  op_options.max_topk = static_cast<int>(input->topk);
  op_options.d_qk = static_cast<int>(input->d_qk);
  if (input->recorded) replay(*input->recorded, options, chosen->device.target, op_options);
  progress.working_on("preparing kernels");
  Result<SparseMlaPrefill> op = SparseMlaPrefill::create(*runtime, op_options);
  if (!op) return fail(std::move(op.error()));
  report.union_asked = op->union_asked();
  report.union_used = op->union_used();
  report.union_reason = op->union_reason();
  report.deterministic = op_options.deterministic;
  report.workspace = op->workspace_bytes(input->tokens, input->kv_rows);
  progress.step("kernels are prepared");

  const Result<DeviceTensors> tensors = place(*runtime, report.device.id, *input, report.workspace);
  if (!tensors) return fail(Error(tensors.error()));
  describe_launches(*op, *input, report);
  report.warm_ups = on_gpu ? 3 : 1;
  report.repetitions = on_gpu ? 15 : 3;
  if (Result<> measured = measure(*runtime, *op, tensors->arguments, report, progress); !measured) return fail(std::move(measured.error()));
  describe_launches(*op, *input, report);  // A launch may have stepped down.
  Result<HostOutput> output = fetch(*tensors, *input);
  if (!output) return fail(std::move(output.error()));
  report.counters = runtime->counters();
  runtime->flush_remote(kRemoteSeconds);
  progress.step("ran");

  if (options.check) {
    progress.working_on("computing the reference");
    const CheckedOutput checked = check_output(*input, *output, report.union_used, options.seed.value_or(1));
    report.check = checked.check;
    report.checked_tokens = checked.tokens;
    if (input->recorded && !input->recorded->out.empty()) report.recorded = compare_recorded(*input, *output, report, options);
    progress.step("checked");
  }
  if (!options.output_file.empty()) {
    if (Result<> written = write_output(options, *input, *output, report); !written)
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

ExitCode run_sparse_mla(const RunSparseMlaOptions& options) {
  const Result<RunReport> report = run(options);
  if (!report) return report_error(report.error());
  const bool wrong = (report->check && !report->check->passed) || (report->recorded && !report->recorded->passed());
  return finish(options.output.json ? json_of(*report) : text_of(*report), wrong ? ExitCode::wrong : ExitCode::done);
}

}  // namespace kernwright::tool
