#include "bench_paged_mla.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "backend/cuda/diagnosis.hpp"
#include "block_table_bench.hpp"
#include "json_file.hpp"
#include "kernwright/paged_mla_decode.hpp"
#include "known_rates.hpp"
#include "paged_mla_bench_check.hpp"
#include "paged_mla_bench_pool.hpp"
#include "pool_words.hpp"
#include "prepare/options.hpp"
#include "support/format.hpp"
#include "support/progress.hpp"
#include "support/random.hpp"
#include "target_choice.hpp"
#include "tile_word.hpp"

namespace kernwright::tool {
namespace {

constexpr const char* kGpuPoints =
    "8:16x32768,8:64x32768,8:128x32768,8:128x4096,16:16x32768,16:64x32768,16:128x32768,16:128x4096,128:64x32768,"
    "8:1x4096,8:1x32768,16:1x4096,16:1x32768,128:1x4096,128:1x32768";
constexpr const char* kHostPoints = "2:2x70";
constexpr const char* kGpuBlockTable = "256x131072";
constexpr const char* kHostBlockTable = "3x700";
constexpr int kGpuLayers = 8, kHostLayers = 3;
constexpr double kLargestCopy = 4e9;

class Bench {
 public:
  Bench(const BenchPagedMlaOptions& options, Runtime runtime, DeviceInfo device)
      : options_(options), runtime_(std::move(runtime)), device_(std::move(device)) {}
  Result<PagedMlaBenchReport> run();

 private:
  [[nodiscard]] bool on_gpu() const { return device_.id.backend == BackendKind::cuda; }
  [[nodiscard]] int query_tokens() const { return options_.query_tokens.value_or(1); }
  [[nodiscard]] BatchTimingOptions timing_options() const;
  [[nodiscard]] BenchPoolShape pool_shape(const PagedMlaPoint& point, PoolKind kind) const;
  Result<> describe(PagedMlaBenchReport& report) const;
  Result<PagedMlaBenchPoint> measure(const PagedMlaPoint& point, PoolKind kind, PagedMlaBenchReport& report, support::Progress& progress);

  const BenchPagedMlaOptions& options_;
  Runtime runtime_;
  DeviceInfo device_;
};

BatchTimingOptions Bench::timing_options() const {
  BatchTimingOptions timing;
  timing.warm_ups = on_gpu() ? 3 : 1;
  timing.repetitions = options_.repetitions.value_or(on_gpu() ? 15 : 3);
  if (!on_gpu()) timing.batch_us = 0;
  timing.graph = on_gpu() && options_.launches != "stream";
  return timing;
}

/// As many batches as keep the L2 cache from helping, and as many layers as memory holds, up to those asked for.
BenchPoolShape Bench::pool_shape(const PagedMlaPoint& point, PoolKind kind) const {
  BenchPoolShape shape;
  shape.kind = kind;
  shape.page_size = options_.page_size;
  shape.batch = point.batch;
  shape.tokens = point.tokens;
  shape.seed = options_.seed;
  shape.sets = rotated_sets(device_, point.batch, point.tokens);
  if (kind == PoolKind::static_pool) return shape;
  const double layer = shape.bytes();
  const int asked = options_.layers.value_or(on_gpu() ? kGpuLayers : kHostLayers);
  shape.layers = static_cast<int>(std::clamp(kUsableMemory * static_cast<double>(device_.memory.count) / layer, 1.0, double(asked)));
  return shape;
}

Result<PagedMlaBenchPoint> Bench::measure(const PagedMlaPoint& point, PoolKind kind, PagedMlaBenchReport& report,
                                          support::Progress& progress) {
  PagedMlaBenchPoint measured;
  measured.shape = point;
  measured.pool = kind;
  PagedMlaDecodeOptions op_options;
  op_options.device = device_.id;
  op_options.heads = static_cast<int>(point.heads);
  op_options.query_tokens = query_tokens();
  op_options.page_size = options_.page_size;
  op_options.pool = kind;
  auto tile = parse_tile(options_.tile);
  if (!tile) return fail(std::move(tile.error()));
  op_options.tile = std::move(*tile);
  const std::string name = fmt::format("{}, {}", point.name(), to_string(kind));
  progress.working_on(name + ": kernels");
  auto op = PagedMlaDecode::create(runtime_, op_options);
  if (!op) return fail(std::move(op.error()));
  measured.tile = op->reports().front().tile_fitted.text();
  for (const PrepareReport& kernel : op->reports()) {
    if (std::ranges::find(report.kernels, kernel.key, &PrepareReport::key) == report.kernels.end()) report.kernels.push_back(kernel);
  }

  progress.working_on(name + ": pool");
  auto source = make_kv_source(runtime_, device_.id, point.tokens, options_.seed);
  if (!source) return fail(std::move(source.error()));
  const BenchPoolShape shape = pool_shape(point, kind);
  auto pool = BenchPool::create(runtime_, device_.id, shape, *source);
  if (!pool) return fail(std::move(pool.error()));
  measured.layers = shape.layers;
  measured.sets = shape.sets;
  measured.moved_pages = pool->moved_pages();
  auto problem = PagedMlaBenchProblem::create(runtime_, *op, *pool, *source, options_.seed);
  if (!problem) return fail(std::move(problem.error()));

  progress.working_on(name + ": check");
  auto checked = problem->check();
  if (!checked) return fail(std::move(checked.error()));
  measured.check = checked->check;
  measured.checked_requests = checked->requests;
  if (!measured.check.passed) return measured;  // a wrong kernel's time is nobody's

  progress.working_on(name + ": timing");
  const auto enqueue = [&](std::int64_t i, StreamHandle stream) { return problem->run(i % shape.sets, stream); };
  auto timing = time_batches(runtime_, device_.id, enqueue, timing_options());
  if (!timing) return fail(std::move(timing.error()));
  measured.timing = std::move(*timing);
  const double keys = static_cast<double>(point.batch * point.tokens);
  measured.bytes = keys * static_cast<double>(kKvRowBytes);
  measured.operations = 2 * keys * static_cast<double>(point.heads * query_tokens() * (kKvRowWidth + kBenchValueWidth));
  return measured;
}

Result<> Bench::describe(PagedMlaBenchReport& report) const {
  report.device = device_;
  report.version = KERNWRIGHT_VERSION;
  report.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  report.query_tokens = query_tokens();
  report.page_size = options_.page_size;
  report.seed = options_.seed;
  report.graph = timing_options().graph;
  report.warm_ups = timing_options().warm_ups;
  report.repetitions = timing_options().repetitions;
  report.matrix_tflops = options_.matrix_tflops > 0 ? options_.matrix_tflops : known_rates(device_.name).tflops;
  if (!on_gpu()) {
    report.compiler = "the interpreter: times are this CPU's, not a GPU's";
    return {};
  }
  auto resolved = resolve_options({});
  if (!resolved) return fail(std::move(resolved.error()));
  const CudaDiagnosis cuda = diagnose_cuda(*resolved);
  report.driver = cuda.driver_version;
  report.compiler = "nvrtc " + cuda.nvrtc_version;
  return {};
}

Result<PagedMlaBenchReport> Bench::run() {
  if (!on_gpu() && options_.launches == "graph") {
    return fail(ErrorCode::invalid_argument, "--launches graph: the host interpreter has no graphs; legal is stream");
  }
  const auto points = paged_mla_points(!options_.points.empty() ? options_.points : on_gpu() ? kGpuPoints : kHostPoints);
  if (!points) return fail(Error(points.error()));
  const auto kinds = parse_pools(options_.pools);
  if (!kinds) return fail(Error(kinds.error()));
  std::optional<PagedMlaPoint> table_point;
  if (options_.block_table != "none") {
    auto parsed = block_table_point(!options_.block_table.empty() ? options_.block_table : on_gpu() ? kGpuBlockTable : kHostBlockTable);
    if (!parsed) return fail(std::move(parsed.error()));
    table_point = std::move(*parsed);
  }
  // Without a look-up the order of ids does not matter.
  std::vector<std::pair<PoolKind, PageIds>> tables;
  for (const PoolKind kind : *kinds) {
    if (!table_point) break;
    tables.emplace_back(kind, PageIds::anywhere);
    if (kind != PoolKind::static_pool) tables.emplace_back(kind, PageIds::in_order);
  }
  PagedMlaBenchReport report;
  if (auto described = describe(report); !described) return fail(std::move(described.error()));
  const auto steps = static_cast<std::int64_t>(points->size() * kinds->size() + 1 + tables.size());
  support::Progress progress(support::progress_style(options_.output.quiet), "bench paged-mla", steps);

  progress.working_on("copy bandwidth");
  report.copied =
      Bytes{static_cast<std::uint64_t>(on_gpu() ? std::min(kLargestCopy, static_cast<double>(device_.memory.count) / 8) : 16e6)};
  BatchTimingOptions of_copy = timing_options();
  of_copy.graph = false;
  auto copy = measured_copy_tbps(runtime_, device_.id, report.copied, of_copy);
  if (!copy) return fail(std::move(copy.error()));
  report.copy_tbps = std::move(*copy);
  progress.step("copy bandwidth");

  for (const auto& [kind, ids] : tables) {
    const int layers = options_.layers.value_or(on_gpu() ? kGpuLayers : kHostLayers);
    auto measured =
        measure_block_table(runtime_, device_, {*table_point, kind, ids, options_.page_size, layers, options_.seed}, timing_options());
    if (!measured) return fail(std::move(measured.error()).within("block table " + options_.block_table));
    report.block_tables.push_back(std::move(*measured));
    progress.step(fmt::format("block table, {}, ids {}", to_string(kind), to_string(ids)));
  }
  for (const PagedMlaPoint& point : *points) {
    for (const PoolKind kind : *kinds) {
      auto measured = measure(point, kind, report, progress);
      if (!measured) return fail(std::move(measured.error()).within(fmt::format("{}, {}", point.name(), to_string(kind))));
      report.points.push_back(std::move(*measured));
      progress.step(fmt::format("{}, {}", point.name(), to_string(kind)));
    }
  }
  return report;
}

Result<PagedMlaBenchReport> bench(const BenchPagedMlaOptions& options) {
  if (auto writable = require_writable_json(options.json_file); !writable) return fail(std::move(writable.error()));
  auto runtime = Runtime::create(runtime_options(options.output, options.template_folder));
  if (!runtime) return fail(std::move(runtime.error()));
  auto chosen = choose_device(*runtime, target_word(options.target, "auto"));
  if (!chosen) return fail(std::move(chosen.error()));
  if (!chosen->note.empty()) note(options.output, chosen->note);
  return Bench(options, *runtime, chosen->device).run();
}

}  // namespace

ExitCode bench_paged_mla(const BenchPagedMlaOptions& options) {
  const Result<PagedMlaBenchReport> report = bench(options);
  if (!report) return report_error(report.error());
  const bool right = std::ranges::all_of(report->points, [](const PagedMlaBenchPoint& point) { return point.check.passed; }) &&
                     std::ranges::all_of(report->block_tables, [](const BlockTableBenchPoint& point) { return point.wrong_cells == 0; });
  const ExitCode code = right ? ExitCode::done : ExitCode::wrong;
  if (options.json_file == "-") return finish(json_of(*report), code);
  if (!options.json_file.empty()) {
    if (const auto written = write_json(options.json_file, json_of(*report)); !written) return report_error(written.error());
  }
  return finish(text_of(*report), code);
}

}  // namespace kernwright::tool
