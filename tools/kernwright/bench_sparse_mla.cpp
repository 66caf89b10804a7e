#include "bench_sparse_mla.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>

#include "backend/cuda/diagnosis.hpp"
#include "bench_json.hpp"
#include "json_file.hpp"
#include "known_rates.hpp"
#include "output_file.hpp"
#include "prepare/options.hpp"
#include "sparse_mla_timing.hpp"
#include "sparse_mla_words.hpp"
#include "support/format.hpp"
#include "support/progress.hpp"
#include "target_choice.hpp"
#include "tile_word.hpp"

namespace kernwright::tool {
namespace {

class Bench {
 public:
  Bench(const BenchSparseMlaOptions& options, Runtime runtime, DeviceInfo device)
      : options_(options), runtime_(std::move(runtime)), device_(std::move(device)) {}

  Result<BenchReport> run();

 private:
  [[nodiscard]] bool on_gpu() const { return device_.id.backend == BackendKind::cuda; }
  Result<BenchPoint> point(const PointSpec& spec, BenchReport& report, support::Progress& progress);
  Result<SparseMlaPrefill> make_op(const SparseMlaInput& input);

  const BenchSparseMlaOptions& options_;
  Runtime runtime_;
  DeviceInfo device_;
};

Result<SparseMlaPrefill> Bench::make_op(const SparseMlaInput& input) {
  SparseMlaPrefillOptions op;
  op.device = device_.id;
  op.heads = static_cast<int>(input.heads);
  op.max_topk = static_cast<int>(input.topk);
  op.d_qk = static_cast<int>(input.d_qk);
  op.deterministic = options_.deterministic;
  auto group = parse_union(options_.union_word, options_.deterministic);
  if (!group) return fail(std::move(group.error()));
  op.group_size = *group;
  auto tile = parse_tile(options_.tile);
  if (!tile) return fail(std::move(tile.error()));
  op.tile = std::move(*tile);
  return SparseMlaPrefill::create(runtime_, op);
}

Result<BenchPoint> Bench::point(const PointSpec& spec, BenchReport& report, support::Progress& progress) {
  progress.working_on(spec.name + ": input");
  auto input = make_input(spec, options_.heads, 0);
  if (!input) return fail(std::move(input.error()));
  auto op = make_op(*input);
  if (!op) return fail(std::move(op.error()));
  BenchPoint point;
  point.name = spec.name;
  point.tokens = input->tokens;
  point.heads = input->heads;
  point.kv_rows = input->kv_rows;
  point.topk = input->topk;
  point.union_used = op->union_used();
  const Bytes workspace = op->workspace_bytes(input->tokens, input->kv_rows);

  auto inputs = place_rotated(runtime_, device_.id, spec, *input, workspace);
  if (!inputs) return fail(std::move(inputs.error()));
  point.rotated_inputs = static_cast<int>(inputs->size());

  progress.working_on(spec.name + ": check");
  auto output = run_once(runtime_, device_.id, *op, inputs->front(), *input);
  if (!output) return fail(std::move(output.error()));
  const CheckedOutput checked = check_output(*input, *output, point.union_used, options_.points.seed);
  point.check = checked.check;
  point.checked_tokens = checked.tokens;
  point.tile = op->reports().back().tile_fitted.text();
  for (const PrepareReport& kernel : op->reports()) {
    if (std::ranges::find(report.kernels, kernel.key, &PrepareReport::key) == report.kernels.end()) report.kernels.push_back(kernel);
  }
  if (!point.check.passed) return point;  // a wrong kernel's time is nobody's

  progress.working_on(spec.name + ": timing");
  for (const auto& shape : op->launch_shapes(input->tokens, input->topk, input->kv_rows)) point.launch_names.push_back(shape.template_name);
  const TimingOptions timing{report.warm_ups, report.repetitions, 0};
  auto timed = time_op(runtime_, device_.id, *op, *inputs, timing);
  if (!timed) return fail(std::move(timed.error()));
  point.total_ms = std::move(timed->total_ms);
  point.launch_ms = std::move(timed->launch_ms);
  auto control = time_op(runtime_, device_.id, *op, *inputs, timing);
  if (!control) return fail(std::move(control.error()));
  point.control_ms = std::move(control->total_ms);

  point.work = support::sparse_mla_work(input->indices, input->topk_length, input->tokens, input->topk, input->kv_rows, input->heads,
                                        input->d_qk, kValueColumns, point.union_used);
  const double arithmetic = report.peak_tflops > 0 ? point.work.operations / (report.peak_tflops * 1e12) * 1e3 : 0;
  const double memory = report.peak_tbps > 0 ? point.work.bytes / (report.peak_tbps * 1e12) * 1e3 : 0;
  point.floor_ms = std::max(arithmetic, memory);
  if (point.floor_ms > 0) point.floor_by = arithmetic >= memory ? "arithmetic" : "memory";
  return point;
}

Result<BenchReport> Bench::run() {
  auto specs = point_specs(options_.points, on_gpu());
  if (!specs) return fail(std::move(specs.error()));
  BenchReport report;
  report.device = device_;
  report.version = KERNWRIGHT_VERSION;
  report.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  report.warm_ups = on_gpu() ? 3 : 1;
  report.repetitions = options_.repetitions.value_or(on_gpu() ? 15 : 3);
  report.peak_tflops = options_.peak_tflops;
  report.peak_tbps = options_.peak_tbps;
  const KnownRates known = known_rates(device_.name);
  if (report.peak_tflops == 0) report.peak_tflops = known.tflops;
  if (report.peak_tbps == 0) report.peak_tbps = known.tbps;
  if (on_gpu()) {
    auto resolved = resolve_options({});
    if (!resolved) return fail(std::move(resolved.error()));
    const CudaDiagnosis cuda = diagnose_cuda(*resolved);
    report.driver = cuda.driver_version;
    report.compiler = "nvrtc " + cuda.nvrtc_version;
  } else {
    report.compiler = "the interpreter: times are this CPU's, not a GPU's";
  }
  support::Progress progress(support::progress_style(options_.output.quiet), "bench sparse-mla", static_cast<std::int64_t>(specs->size()));
  const auto started = std::chrono::steady_clock::now();
  for (const PointSpec& spec : *specs) {
    auto measured = point(spec, report, progress);
    if (!measured) return fail(std::move(measured.error()).within(spec.name));
    report.points.push_back(std::move(*measured));
    const double each =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count() / static_cast<double>(report.points.size());
    const double left = each * static_cast<double>(specs->size() - report.points.size());
    progress.step(left > 0 ? fmt::format("{}, about {} left", spec.name, support::format_duration(left)) : spec.name);
  }
  return report;
}

Result<BenchReport> bench(const BenchSparseMlaOptions& options) {
  const std::array<OutputFile, 2> outputs{{{"--json", options.json_file}, {"--report", options.report_file}}};
  if (auto apart = require_apart(outputs); !apart) return fail(std::move(apart.error()));
  if (auto writable = require_writable_json(options.json_file); !writable) return fail(std::move(writable.error()));
  if (!options.report_file.empty()) {
    if (auto writable = check_writable("--report", options.report_file); !writable) return fail(std::move(writable.error()));
  }
  std::vector<BenchPeer> peers;
  for (const std::string& file : options.peer_files) {
    auto peer = read_peer(file);
    if (!peer) return fail(std::move(peer.error()));
    peers.push_back(std::move(*peer));
  }
  auto runtime = Runtime::create(runtime_options(options.output, options.template_folder));
  if (!runtime) return fail(std::move(runtime.error()));
  auto chosen = choose_device(*runtime, target_word(options.target, "auto"));
  if (!chosen) return fail(std::move(chosen.error()));
  if (!chosen->note.empty()) note(options.output, chosen->note);
  auto report = Bench(options, *runtime, chosen->device).run();
  if (report) report->peers = std::move(peers);
  return report;
}

}  // namespace

ExitCode bench_sparse_mla(const BenchSparseMlaOptions& options) {
  const Result<BenchReport> report = bench(options);
  if (!report) return report_error(report.error());
  const bool right = std::ranges::all_of(report->points, [](const BenchPoint& point) { return point.check.passed; });
  const ExitCode code = right ? ExitCode::done : ExitCode::wrong;
  if (!options.report_file.empty()) {
    if (const auto written = write_page(options.report_file, html_of(*report)); !written) return report_error(written.error());
  }
  if (options.json_file == "-") return finish(json_of(*report), code);
  if (!options.json_file.empty()) {
    if (const auto written = write_json(options.json_file, json_of(*report)); !written) return report_error(written.error());
  }
  return finish(text_of(*report), code);
}

}  // namespace kernwright::tool
