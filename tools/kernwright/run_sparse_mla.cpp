#include "run_sparse_mla.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "host_memory.hpp"
#include "kernwright/sparse_mla_prefill.hpp"
#include "reports.hpp"
#include "sparse_mla_input.hpp"
#include "support/progress.hpp"
#include "support/safetensors.hpp"
#include "target_choice.hpp"

namespace kernwright::tool {
namespace {

constexpr std::int64_t kValueColumns = 512;

/// Input, outputs and workspace in device memory, and the arguments that name them.
struct DeviceTensors {
  DeviceBuffer q, kv, indices, topk_length, attn_sink, out, max_logits, lse, workspace;
  SparseMlaPrefillArguments arguments;
};

struct HostOutput {
  std::vector<support::Bf16> out;
  std::vector<float> max_logits, lse;
};

template <class T>
Result<DeviceBuffer> to_device(const Runtime& runtime, DeviceId device, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  Result<DeviceBuffer> buffer = runtime.allocate(device, Bytes{bytes.size()});
  if (!buffer) return buffer;
  if (Result<> uploaded = buffer->upload(bytes); !uploaded) return fail(std::move(uploaded.error()));
  return buffer;
}

/// An output of `size` bytes, full of NaNs: what no launch writes does not pass for a zero.
Result<DeviceBuffer> output_buffer(const Runtime& runtime, DeviceId device, std::int64_t size) {
  Result<DeviceBuffer> buffer = runtime.allocate(device, Bytes{static_cast<std::uint64_t>(size)});
  if (!buffer) return buffer;
  if (Result<> filled = buffer->fill(std::byte{0xff}); !filled) return fail(std::move(filled.error()));
  return buffer;
}

Result<DeviceTensors> place(const Runtime& runtime, DeviceId device, const SparseMlaInput& input, Bytes workspace) {
  DeviceTensors tensors;
  Result<> done;
  const auto keep = [&done](DeviceBuffer& to, auto&& make) {
    if (!done) return;
    Result<DeviceBuffer> made = make();
    if (made) {
      to = std::move(*made);
    } else {
      done = fail(std::move(made.error()));
    }
  };
  const std::int64_t rows = input.tokens * input.heads;
  keep(tensors.q, [&] { return to_device(runtime, device, input.q); });
  keep(tensors.kv, [&] { return to_device(runtime, device, input.kv); });
  keep(tensors.indices, [&] { return to_device(runtime, device, input.indices); });
  if (!input.topk_length.empty()) keep(tensors.topk_length, [&] { return to_device(runtime, device, input.topk_length); });
  if (!input.attn_sink.empty()) keep(tensors.attn_sink, [&] { return to_device(runtime, device, input.attn_sink); });
  keep(tensors.out, [&] { return output_buffer(runtime, device, 2 * rows * kValueColumns); });
  keep(tensors.max_logits, [&] { return output_buffer(runtime, device, 4 * rows); });
  keep(tensors.lse, [&] { return output_buffer(runtime, device, 4 * rows); });
  keep(tensors.workspace, [&] { return runtime.allocate(device, workspace); });
  if (!done) return fail(std::move(done.error()).within("placing the problem on the device"));

  SparseMlaPrefillArguments& a = tensors.arguments;
  a.q = TensorView::contiguous(tensors.q.data(), DType::bf16, {input.tokens, input.heads, input.d_qk});
  a.kv = TensorView::contiguous(tensors.kv.data(), DType::bf16, {input.kv_rows, input.d_qk});
  a.indices = TensorView::contiguous(tensors.indices.data(), DType::i32, {input.tokens, input.topk});
  if (!input.topk_length.empty()) a.topk_length = TensorView::contiguous(tensors.topk_length.data(), DType::i32, {input.tokens});
  if (!input.attn_sink.empty()) a.attn_sink = TensorView::contiguous(tensors.attn_sink.data(), DType::f32, {input.heads});
  a.sm_scale = input.sm_scale;
  a.out = TensorView::contiguous(tensors.out.data(), DType::bf16, {input.tokens, input.heads, kValueColumns});
  a.max_logits = TensorView::contiguous(tensors.max_logits.data(), DType::f32, {input.tokens, input.heads});
  a.lse = TensorView::contiguous(tensors.lse.data(), DType::f32, {input.tokens, input.heads});
  a.workspace = workspace.count == 0 ? nullptr : tensors.workspace.data();
  a.workspace_size = workspace;
  return tensors;
}

Result<HostOutput> fetch(const DeviceTensors& tensors, const SparseMlaInput& input) {
  const auto rows = static_cast<std::size_t>(input.tokens * input.heads);
  HostOutput output;
  output.out.resize(rows * kValueColumns);
  output.max_logits.resize(rows);
  output.lse.resize(rows);
  Result<> done = tensors.out.download(std::as_writable_bytes(std::span(output.out)));
  if (done) done = tensors.max_logits.download(std::as_writable_bytes(std::span(output.max_logits)));
  if (done) done = tensors.lse.download(std::as_writable_bytes(std::span(output.lse)));
  if (!done) return fail(std::move(done.error()).within("fetching the output"));
  return output;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

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
  report.total_ms = median(totals);
  for (std::size_t i = 0; i < each.size(); ++i) report.launches[i].median_ms = median(each[i]);
  return {};
}

Result<std::optional<int>> parse_union(const std::string& word, bool deterministic) {
  if (word == "auto") return std::optional<int>{};
  for (const int group : {0, 2, 4, 8, 16}) {
    if (word != std::to_string(group)) continue;
    if (deterministic && group != 0) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--union {} contradicts --deterministic, which turns union off; legal with it are auto and 0", word));
    }
    return std::optional<int>{group};
  }
  return fail(ErrorCode::invalid_argument, fmt::format("--union {}: legal are auto, 0 (off), 2, 4, 8, 16", word));
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

Result<RunReport> run(const RunSparseMlaOptions& options) {
  Result<std::optional<int>> group = parse_union(options.union_word, options.deterministic);
  if (!group) return fail(std::move(group.error()));
  SparseMlaPrefillOptions op_options;
  op_options.group_size = *group;
  op_options.deterministic = options.deterministic;
  if (!options.tile.empty()) {
    Result<Tile> tile = Tile::parse(options.tile);
    if (!tile) return fail(std::move(tile.error()).within("--tile"));
    op_options.tile = std::move(*tile);
  }

  Result<Runtime> runtime = Runtime::create(runtime_options(options.output));
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
  progress.working_on("preparing kernels");
  Result<SparseMlaPrefill> op = SparseMlaPrefill::create(*runtime, op_options);
  if (!op) return fail(std::move(op.error()));
  report.union_asked = op->union_asked();
  report.union_used = op->union_used();
  report.union_reason = op->union_reason();
  report.deterministic = options.deterministic;
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
  progress.step("ran");

  if (options.check) {
    progress.working_on("computing the reference");
    const std::vector<std::int64_t> tokens = support::checked_tokens(input->tokens, report.union_used, options.seed.value_or(1));
    const auto repeated = report.union_used > 0 ? support::RepeatedPositions::once : support::RepeatedPositions::each;
    const support::SparseMlaReference reference = support::sparse_mla_reference(input->problem(), tokens, repeated);
    report.check = support::check_sparse_mla(reference, {output->out, output->lse, output->max_logits});
    report.checked_tokens = static_cast<std::int64_t>(tokens.size());
    progress.step("checked");
  }
  if (!options.output_file.empty()) {
    if (Result<> written = write_output(options, *input, *output, report); !written)
      return fail(std::move(written.error()).within("--output"));
    report.output = options.output_file;
  }
  return report;
}

}  // namespace

ExitCode run_sparse_mla(const RunSparseMlaOptions& options) {
  const Result<RunReport> report = run(options);
  if (!report) return report_error(report.error());
  const bool wrong = report->check && !report->check->passed;
  return finish(options.output.json ? json_of(*report) : text_of(*report), wrong ? ExitCode::wrong : ExitCode::done);
}

}  // namespace kernwright::tool
