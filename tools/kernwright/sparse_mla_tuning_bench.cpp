#include "sparse_mla_tuning_bench.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "support/sparse_mla_reference_file.hpp"

namespace kernwright::tool {
namespace {

using tuning::Json;

constexpr std::int64_t kLargestGroup = 16;  // the sample of checked tokens holds the last groups of every union

Result<SparseMlaPointWords> points_of(const WorkerSetUp& set_up) {
  SparseMlaPointWords points;
  points.seed = set_up.seed;
  const Json& json = set_up.bench;
  try {
    points.shapes = json.at("shapes").get<std::string>();
    points.churns = json.at("churns").get<std::string>();
    points.inputs = json.at("inputs").get<std::vector<std::string>>();
    if (json.contains("topk")) points.topk = json.at("topk").get<std::int64_t>();
    if (json.contains("spread_rows")) points.spread_rows = json.at("spread_rows").get<std::int64_t>();
  } catch (const Json::exception& problem) {
    return fail(ErrorCode::malformed, fmt::format("a worker's set-up: {}", problem.what()));
  }
  return points;
}

}  // namespace

Json json_of(const SparseMlaPointWords& points) {
  Json json{{"shapes", points.shapes}, {"churns", points.churns}, {"inputs", points.inputs}};
  if (points.topk) json["topk"] = *points.topk;
  if (points.spread_rows) json["spread_rows"] = *points.spread_rows;
  return json;
}

Result<std::unique_ptr<FamilyBench>> SparseMlaTuningBench::open(const Runtime& runtime, const WorkerSetUp& set_up) {
  const auto points = points_of(set_up);
  if (!points) return fail(Error(points.error()));
  auto specs = point_specs(*points, set_up.device.backend == BackendKind::cuda);
  if (!specs) return fail(std::move(specs.error()));
  return std::unique_ptr<FamilyBench>(new SparseMlaTuningBench(runtime, set_up, std::move(*specs)));
}

std::vector<std::string> SparseMlaTuningBench::shapes() const {
  std::vector<std::string> names;
  for (const PointSpec& spec : specs_) names.push_back(spec.name);
  return names;
}

Result<> SparseMlaTuningBench::place(const Specialisation& specialisation, const StageListener& stage) {
  const std::int64_t heads = integer_of(specialisation, "heads");
  if (heads == heads_) return {};
  points_.clear();
  heads_ = 0;
  for (const PointSpec& spec : specs_) {
    stage(spec.name + ": input");
    auto input = make_input(spec, heads, 0);
    if (!input) return fail(std::move(input.error()).within(spec.name));
    auto tensors = place_rotated(runtime_, device_, spec, *input, Bytes{});
    if (!tensors) return fail(std::move(tensors.error()).within(spec.name));
    points_.push_back({std::move(*input), std::move(*tensors), {}});
  }
  heads_ = heads;
  return {};
}

Result<> SparseMlaTuningBench::prepare(const tuning::Task& task) {
  const Specialisation& constants = task.subject.specialisation;
  const auto group = static_cast<int>(integer_of(constants, "group_size"));
  SparseMlaPrefillOptions options;
  options.device = device_;
  options.heads = static_cast<int>(integer_of(constants, "heads"));
  options.d_qk = static_cast<int>(integer_of(constants, "d_qk"));
  options.group_size = group == 1 ? 0 : group;
  options.tile = task.tile;
  options.max_topk = 1;
  for (const Point& point : points_) options.max_topk = std::max(options.max_topk, static_cast<int>(point.input.topk));
  auto op = SparseMlaPrefill::create(runtime_, options);
  if (!op) return fail(std::move(op.error()));
  const PrepareReport prefill = op->reports().back();
  if (prefill.tile_fitted != task.tile) return fail(ErrorCode::does_not_fit, prefill.fit_reason);
  op_ = std::move(*op);
  return {};
}

/// From the run's folder, or computed and put there for the next process.
Result<const support::SparseMlaReference*> SparseMlaTuningBench::reference(std::size_t point) {
  const bool with_union = op_->union_used() > 0;
  auto& known = points_[point].references;
  if (const auto place = known.find(with_union); place != known.end()) return &place->second;
  const SparseMlaInput& input = points_[point].input;
  const auto file = references_ / fmt::format("heads{}-shape{}-{}.safetensors", heads_, point, with_union ? "union" : "token");
  auto obtained = support::stored_reference(
      file, [&] { return reference_of(input, support::checked_tokens(input.tokens, kLargestGroup, seed_), with_union ? 1 : 0); });
  if (!obtained) return fail(std::move(obtained.error()));
  return &known.emplace(with_union, std::move(*obtained)).first->second;
}

Result<> SparseMlaTuningBench::provide(std::size_t shape, bool judged, const StageListener&) {
  Point& point = points_[shape];
  for (DeviceTensors& tensors : point.tensors) {
    const Bytes workspace = op_->workspace_bytes(point.input.tokens, point.input.kv_rows);
    if (auto grown = grow_workspace(runtime_, device_, tensors, workspace); !grown) return fail(std::move(grown.error()));
  }
  if (!judged) return {};
  const auto known = reference(shape);
  return known ? Result<>() : fail(Error(known.error()));
}

Result<std::string> SparseMlaTuningBench::judge(std::size_t shape) {
  Point& at = points_[shape];
  const auto expected = reference(shape);
  if (!expected) return fail(Error(expected.error()));
  auto output = run_once(runtime_, device_, *op_, at.tensors.front(), at.input);
  if (!output) return fail(std::move(output.error()));
  return support::check_sparse_mla(**expected, {output->out, output->lse, output->max_logits}).first_failure;
}

Result<FamilyBench::Times> SparseMlaTuningBench::time(std::size_t shape, const TimingOptions& options) {
  auto timing = time_op(runtime_, device_, *op_, points_[shape].tensors, options);
  if (!timing) return fail(std::move(timing.error()));
  return Times{std::move(timing->total_ms), timing->given_up};
}

}  // namespace kernwright::tool
