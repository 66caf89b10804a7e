#include "paged_mla_tuning_bench.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "batch_timing.hpp"
#include "support/sparse_mla_reference_file.hpp"

namespace kernwright::tool {
namespace {

using tuning::Json;

constexpr double kMicroseconds = 1e3;  // in a millisecond

Result<PagedMlaTuningBatches> batches_of(const Json& json) {
  PagedMlaTuningBatches batches;
  try {
    batches.page_size = json.at("page_size").get<int>();
    for (const Json& each : json.at("batches")) {
      batches.batches.push_back({0, each.at("requests").get<std::int64_t>(), each.at("tokens").get<std::int64_t>()});
    }
  } catch (const Json::exception& problem) {
    return fail(ErrorCode::malformed, fmt::format("a worker's set-up: {}", problem.what()));
  }
  return batches;
}

}  // namespace

Json json_of(const PagedMlaTuningBatches& batches) {
  Json list = Json::array();
  for (const PagedMlaPoint& each : batches.batches) list.push_back({{"requests", each.batch}, {"tokens", each.tokens}});
  return {{"page_size", batches.page_size}, {"batches", std::move(list)}};
}

BenchPoolShape tuning_pool_shape(const DeviceInfo& device, const PagedMlaPoint& batch, int page_size, std::uint64_t seed) {
  BenchPoolShape shape;
  shape.page_size = page_size;
  shape.sets = rotated_sets(device, batch.batch, batch.tokens);
  shape.batch = batch.batch;
  shape.tokens = batch.tokens;
  shape.seed = seed;
  return shape;
}

Result<std::unique_ptr<FamilyBench>> PagedMlaTuningBench::open(const Runtime& runtime, const WorkerSetUp& set_up,
                                                               const StageListener& stage) {
  const auto wanted = batches_of(set_up.bench);
  if (!wanted) return fail(Error(wanted.error()));
  const auto device = runtime.device(set_up.device);
  if (!device) return fail(Error(device.error()));
  std::unique_ptr<PagedMlaTuningBench> bench(new PagedMlaTuningBench(runtime, set_up, wanted->page_size));
  std::int64_t longest = 0;
  for (const PagedMlaPoint& batch : wanted->batches) longest = std::max(longest, batch.tokens);
  stage("rows");
  auto source = make_kv_source(runtime, set_up.device, longest, set_up.seed);
  if (!source) return fail(std::move(source.error()));
  bench->source_ = std::move(*source);
  for (const PagedMlaPoint& batch : wanted->batches) {
    stage(batch.batch_name() + ": pool");
    auto pool =
        BenchPool::create(runtime, set_up.device, tuning_pool_shape(*device, batch, wanted->page_size, set_up.seed), bench->source_);
    if (!pool) return fail(std::move(pool.error()).within(batch.batch_name()));
    bench->points_.push_back({batch.batch_name(), std::move(*pool), std::nullopt, {}});
  }
  return std::unique_ptr<FamilyBench>(std::move(bench));
}

std::vector<std::string> PagedMlaTuningBench::shapes() const {
  std::vector<std::string> names;
  for (const Point& point : points_) names.push_back(point.name);
  return names;
}

/// Queries need an op, see provide().
Result<> PagedMlaTuningBench::place(const Specialisation& specialisation, const StageListener&) {
  const std::int64_t heads = integer_of(specialisation, "heads"), query_tokens = integer_of(specialisation, "query_tokens");
  if (heads == heads_ && query_tokens == query_tokens_) return {};
  for (Point& point : points_) {
    point.problem.reset();
    point.references.clear();
  }
  heads_ = heads;
  query_tokens_ = query_tokens;
  return {};
}

Result<> PagedMlaTuningBench::prepare(const tuning::Task& task) {
  const Specialisation& constants = task.subject.specialisation;
  PagedMlaDecodeOptions options;
  options.device = device_;
  options.heads = static_cast<int>(heads_);
  options.query_tokens = static_cast<int>(query_tokens_);
  options.page_size = page_size_;
  options.d_qk = static_cast<int>(integer_of(constants, "d_qk"));
  options.tile = task.tile;
  auto op = PagedMlaDecode::create(runtime_, options);
  if (!op) return fail(std::move(op.error()));
  const PrepareReport decode = op->reports().front();
  if (decode.tile_fitted != task.tile) return fail(ErrorCode::does_not_fit, decode.fit_reason);
  op_ = std::move(*op);
  return {};
}

Result<> PagedMlaTuningBench::provide(std::size_t shape, bool judged, const StageListener& stage) {
  Point& point = points_[shape];
  if (point.problem) {
    point.problem->use(*op_);
  } else {
    stage(point.name + ": queries");
    auto problem = PagedMlaBenchProblem::create(runtime_, *op_, point.pool, source_, seed_);
    if (!problem) return fail(std::move(problem.error()));
    point.problem.emplace(std::move(*problem));
  }
  if (!judged) return {};
  const auto samples = point.problem->samples();
  while (point.references.size() < samples.size()) {
    const std::size_t i = point.references.size();
    stage(fmt::format("{}: reference {} of {}", point.name, i + 1, samples.size()));
    const auto file = references_ / fmt::format("heads{}-sq{}-shape{}-sample{}.safetensors", heads_, query_tokens_, shape, i);
    auto obtained = support::stored_reference(file, [&] { return point.problem->reference(samples[i]); });
    if (!obtained) return fail(std::move(obtained.error()));
    point.references.push_back(std::move(*obtained));
  }
  return {};
}

Result<std::string> PagedMlaTuningBench::judge(std::size_t shape) {
  Point& point = points_[shape];
  std::size_t next = 0;
  const auto checked = point.problem->check(
      [&](const PagedMlaBenchProblem::Sample&) -> Result<support::SparseMlaReference> { return point.references[next++]; });
  if (!checked) return fail(Error(checked.error()));
  return checked->check.first_failure;
}

Result<FamilyBench::Times> PagedMlaTuningBench::time(std::size_t shape, const TimingOptions& options) {
  const bool on_gpu = device_.backend == BackendKind::cuda;
  BatchTimingOptions batches;
  batches.warm_ups = options.warm_ups;
  batches.repetitions = options.repetitions;
  if (!on_gpu) batches.batch_us = 0;
  batches.graph = on_gpu;
  batches.give_up_us = options.give_up_ms * kMicroseconds;
  batches.clock = options.clock;
  const Point& point = points_[shape];
  const std::int64_t sets = point.pool.shape().sets;
  const auto timing = time_batches(
      runtime_, device_, [&](std::int64_t i, StreamHandle stream) { return point.problem->run(i % sets, stream); }, batches);
  if (!timing) return fail(Error(timing.error()));
  Times times;
  times.given_up = timing->given_up;
  for (const double us : timing->each_us) times.milliseconds.push_back(us / kMicroseconds);
  return times;
}

}  // namespace kernwright::tool
