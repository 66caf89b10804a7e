#include "bench_sparse_mla.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>

#include "backend/cuda/diagnosis.hpp"
#include "prepare/options.hpp"
#include "sparse_mla_tensors.hpp"
#include "sparse_mla_words.hpp"
#include "support/format.hpp"
#include "support/progress.hpp"
#include "target_choice.hpp"

namespace kernwright::tool {
namespace {

/// What a point's inputs come to at least, so that a later one finds nothing of an earlier one in any present device's L2 cache.
constexpr double kRotatedBytes = 256e6;
constexpr int kMostInputs = 12;

/// Sustained rates as measured, not the data sheet's: the floor of a kernel is what the device was seen to do.
struct KnownRates {
  std::string_view device;
  double tflops;  // bf16 products of random data, 8192³
  double tbps;    // a copy, bytes read and written
};
constexpr std::array kKnownRates{KnownRates{"NVIDIA H200", 790, 4.3}};

struct PointSpec {
  std::string name;
  std::optional<support::WalkOptions> walk;
  std::string file;
};

tl::unexpected<Error> bad_word(std::string_view option, std::string_view word, std::string_view legal) {
  return fail(ErrorCode::invalid_argument, fmt::format("{} {}: legal is {}", option, word, legal));
}

template <class T>
bool parse_whole(std::string_view text, T& value) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size();
}

/// Every shape with every churn, then the point that is spread over many rows.
Result<std::vector<PointSpec>> point_specs(const BenchSparseMlaOptions& options, bool on_gpu) {
  std::vector<PointSpec> specs;
  for (const std::string& file : options.inputs) specs.push_back({file, std::nullopt, file});
  if (!specs.empty()) return specs;
  const std::string shapes = !options.shapes.empty() ? options.shapes : on_gpu ? "1x2048,1x4096,1x8192,2x4096,4x2048" : "1x64,2x32";
  const std::string churns = !options.churns.empty() ? options.churns : on_gpu ? "0.02,0.05,0.10" : "0.05";
  const std::int64_t topk = options.topk.value_or(on_gpu ? 2048 : 32);
  for (const std::string& churn_word : support::split(churns, ',')) {
    double churn = 0;
    if (!parse_whole(churn_word, churn)) return bad_word("--churn", churn_word, "numbers from 0 to 1, comma-separated");
    for (const std::string& shape : support::split(shapes, ',')) {
      const std::size_t cross = shape.find('x');
      support::WalkOptions walk;
      walk.topk = topk;
      walk.churn = churn;
      walk.seed = options.seed;
      if (cross == std::string::npos || !parse_whole(std::string_view(shape).substr(0, cross), walk.batch) ||
          !parse_whole(std::string_view(shape).substr(cross + 1), walk.tokens)) {
        return bad_word("--shapes", shape, "requests x tokens, such as 1x8192,4x2048");
      }
      specs.push_back({fmt::format("{} churn {}", shape, churn_word), walk, {}});
    }
  }
  const std::int64_t spread_rows = options.spread_rows.value_or(on_gpu ? 131'072 : 0);
  if (spread_rows > 0) {
    support::WalkOptions walk;
    walk.tokens = on_gpu ? 8192 : 64;
    walk.topk = topk;
    walk.kv_rows = spread_rows;
    walk.seed = options.seed;
    specs.push_back({fmt::format("1x{} over {}", walk.tokens, spread_rows), walk, {}});
  }
  return specs;
}

double input_bytes(const SparseMlaInput& input) {
  return 2.0 * static_cast<double>(input.q.size() + input.kv.size()) + 4.0 * static_cast<double>(input.indices.size()) +
         2.0 * static_cast<double>(input.tokens * input.heads * kValueColumns);
}

Result<SparseMlaInput> make_input(const PointSpec& spec, const BenchSparseMlaOptions& options, int rotation) {
  if (!spec.walk) return read_sparse_mla_input(spec.file);
  support::WalkOptions walk = *spec.walk;
  walk.seed += static_cast<std::uint64_t>(rotation);
  return generate_sparse_mla_input(walk, options.heads);
}

class Bench {
 public:
  Bench(const BenchSparseMlaOptions& options, Runtime runtime, DeviceInfo device)
      : options_(options), runtime_(std::move(runtime)), device_(std::move(device)) {}

  Result<BenchReport> run();

 private:
  [[nodiscard]] bool on_gpu() const { return device_.id.backend == BackendKind::cuda; }
  Result<BenchPoint> point(const PointSpec& spec, BenchReport& report, support::Progress& progress);
  Result<SparseMlaPrefill> make_op(const SparseMlaInput& input);
  Result<> time(const SparseMlaPrefill& op, const std::vector<DeviceTensors>& inputs, const BenchReport& report,
                std::vector<double>& totals, std::vector<std::vector<double>>* launches);

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
  if (!options_.tile.empty()) {
    auto tile = Tile::parse(options_.tile);
    if (!tile) return fail(std::move(tile.error()).within("--tile"));
    op.tile = std::move(*tile);
  }
  return SparseMlaPrefill::create(runtime_, op);
}

/// Samples of the whole op, and of its launches where asked for. Each repetition takes the next input.
Result<> Bench::time(const SparseMlaPrefill& op, const std::vector<DeviceTensors>& inputs, const BenchReport& report,
                     std::vector<double>& totals, std::vector<std::vector<double>>* launches) {
  auto stream = runtime_.create_stream(device_.id);
  if (!stream) return fail(std::move(stream.error()));
  auto start = runtime_.create_event(device_.id);
  if (!start) return fail(std::move(start.error()));
  const TensorView& q = inputs.front().arguments.q;
  const auto shapes = op.launch_shapes(q.shape[0], inputs.front().arguments.indices.shape[1], inputs.front().arguments.kv.shape[0]);
  std::vector<Event> marks;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    auto mark = runtime_.create_event(device_.id);
    if (!mark) return fail(std::move(mark.error()));
    marks.push_back(std::move(*mark));
  }
  if (launches != nullptr) launches->assign(marks.size(), {});
  for (int run = 0; run < report.warm_ups + report.repetitions; ++run) {
    const DeviceTensors& tensors = inputs[static_cast<std::size_t>(run) % inputs.size()];
    Result<> done = start->record(stream->handle());
    if (done) done = op.run_timed(tensors.arguments, stream->handle(), marks);
    if (done) done = stream->synchronize();
    if (!done) return done;
    if (run < report.warm_ups || marks.empty()) continue;
    for (std::size_t i = 0; launches != nullptr && i < marks.size(); ++i) {
      const auto ms = marks[i].milliseconds_since(i == 0 ? *start : marks[i - 1]);
      if (!ms) return fail(Error(ms.error()));
      (*launches)[i].push_back(*ms);
    }
    const auto total = marks.back().milliseconds_since(*start);
    if (!total) return fail(Error(total.error()));
    totals.push_back(*total);
  }
  return {};
}

Result<BenchPoint> Bench::point(const PointSpec& spec, BenchReport& report, support::Progress& progress) {
  progress.working_on(spec.name + ": input");
  auto input = make_input(spec, options_, 0);
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

  // Another input of the same shape each time; one from a file is placed several times.
  std::vector<DeviceTensors> inputs;
  const double bytes = std::max(input_bytes(*input), 1.0);
  point.rotated_inputs = on_gpu() ? std::clamp(static_cast<int>(std::ceil(kRotatedBytes / bytes)), 2, kMostInputs) : 2;
  for (int i = 0; i < point.rotated_inputs; ++i) {
    auto other = i == 0 || !spec.walk ? Result<SparseMlaInput>(*input) : make_input(spec, options_, i);
    if (!other) return fail(std::move(other.error()));
    auto placed = place(runtime_, device_.id, *other, workspace);
    if (!placed) return fail(std::move(placed.error()));
    inputs.push_back(std::move(*placed));
  }

  progress.working_on(spec.name + ": check");
  auto stream = runtime_.create_stream(device_.id);
  if (!stream) return fail(std::move(stream.error()));
  Result<> ran = op->run(inputs.front().arguments, stream->handle());
  if (ran) ran = stream->synchronize();
  if (!ran) return fail(std::move(ran.error()));
  auto output = fetch(inputs.front(), *input);
  if (!output) return fail(std::move(output.error()));
  const CheckedOutput checked = check_output(*input, *output, point.union_used, options_.seed);
  point.check = checked.check;
  point.checked_tokens = checked.tokens;
  point.tile = op->reports().back().tile_fitted.text();
  for (const PrepareReport& kernel : op->reports()) {
    if (std::ranges::find(report.kernels, kernel.key, &PrepareReport::key) == report.kernels.end()) report.kernels.push_back(kernel);
  }
  if (!point.check.passed) return point;  // a wrong kernel's time is nobody's

  progress.working_on(spec.name + ": timing");
  for (const auto& shape : op->launch_shapes(input->tokens, input->topk, input->kv_rows)) point.launch_names.push_back(shape.template_name);
  if (auto timed = time(*op, inputs, report, point.total_ms, &point.launch_ms); !timed) return fail(std::move(timed.error()));
  if (auto timed = time(*op, inputs, report, point.control_ms, nullptr); !timed) return fail(std::move(timed.error()));

  point.work = support::sparse_mla_work(input->indices, input->tokens, input->topk, input->kv_rows, input->heads, input->d_qk,
                                        kValueColumns, point.union_used);
  const double arithmetic = report.peak_tflops > 0 ? point.work.operations / (report.peak_tflops * 1e12) * 1e3 : 0;
  const double memory = report.peak_tbps > 0 ? point.work.bytes / (report.peak_tbps * 1e12) * 1e3 : 0;
  point.floor_ms = std::max(arithmetic, memory);
  if (point.floor_ms > 0) point.floor_by = arithmetic >= memory ? "arithmetic" : "memory";
  return point;
}

Result<BenchReport> Bench::run() {
  auto specs = point_specs(options_, on_gpu());
  if (!specs) return fail(std::move(specs.error()));
  BenchReport report;
  report.device = device_;
  report.version = KERNWRIGHT_VERSION;
  report.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  report.warm_ups = on_gpu() ? 3 : 1;
  report.repetitions = options_.repetitions.value_or(on_gpu() ? 15 : 3);
  report.peak_tflops = options_.peak_tflops;
  report.peak_tbps = options_.peak_tbps;
  for (const KnownRates& known : kKnownRates) {
    if (device_.name != known.device) continue;
    if (report.peak_tflops == 0) report.peak_tflops = known.tflops;
    if (report.peak_tbps == 0) report.peak_tbps = known.tbps;
  }
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
  for (const PointSpec& spec : *specs) {
    auto measured = point(spec, report, progress);
    if (!measured) return fail(std::move(measured.error()).within(spec.name));
    report.points.push_back(std::move(*measured));
    progress.step(spec.name);
  }
  return report;
}

Result<> write_json(const std::string& file, const std::string& text) {
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream << text << std::flush;
  if (stream) return {};
  return fail(ErrorCode::io, fmt::format("--json {}: it could not be written", file));
}

Result<BenchReport> bench(const BenchSparseMlaOptions& options) {
  // Noticed before minutes are spent. Appending nothing leaves a file that is there as it is.
  if (!options.json_file.empty() && options.json_file != "-" && !std::ofstream(options.json_file, std::ios::app)) {
    return fail(ErrorCode::io, fmt::format("--json {}: it cannot be written", options.json_file));
  }
  auto runtime = Runtime::create(runtime_options(options.output));
  if (!runtime) return fail(std::move(runtime.error()));
  auto chosen = choose_device(*runtime, target_word(options.target, "auto"));
  if (!chosen) return fail(std::move(chosen.error()));
  if (!chosen->note.empty()) note(options.output, chosen->note);
  return Bench(options, *runtime, chosen->device).run();
}

}  // namespace

ExitCode bench_sparse_mla(const BenchSparseMlaOptions& options) {
  const Result<BenchReport> report = bench(options);
  if (!report) return report_error(report.error());
  const bool right = std::ranges::all_of(report->points, [](const BenchPoint& point) { return point.check.passed; });
  const ExitCode code = right ? ExitCode::done : ExitCode::wrong;
  if (options.json_file == "-") return finish(json_of(*report), code);
  if (!options.json_file.empty()) {
    if (const auto written = write_json(options.json_file, json_of(*report)); !written) return report_error(written.error());
  }
  return finish(text_of(*report), code);
}

}  // namespace kernwright::tool
