#include "sparse_mla_tuning_bench.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/diagnosis.hpp"
#include "prepare/runtime_state.hpp"
#include "search/nvml_clock.hpp"
#include "support/sparse_mla_reference_file.hpp"

namespace kernwright::tool {
namespace {

using tuning::Measurement;
using tuning::Outcome;

constexpr std::string_view kNvmlLibrary = "libnvidia-ml.so.1";
constexpr std::int64_t kLargestGroup = 16;  // the sample of checked tokens holds the last groups of every union

/// How a kernel's error counts. Nothing where it is the machine's and would be every kernel's.
Outcome outcome_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::compile_failed: return Outcome::not_built;
    case ErrorCode::device_fault: return Outcome::faulted;
    default: return Outcome::refused;
  }
}

std::int64_t integer_of(const Specialisation& specialisation, std::string_view name) {
  const auto value = specialisation.get(name);
  const auto* const number = value ? std::get_if<std::int64_t>(&*value) : nullptr;
  return number == nullptr ? 0 : *number;
}

}  // namespace

Result<SparseMlaTuningBench> SparseMlaTuningBench::open(Runtime runtime, WorkerSetUp set_up) {
  auto specs = point_specs(set_up.points, set_up.device.backend == BackendKind::cuda);
  if (!specs) return fail(std::move(specs.error()));
  SparseMlaTuningBench bench(std::move(runtime), std::move(set_up), std::move(*specs));
  if (bench.set_up_.device.backend == BackendKind::cuda) {
    const std::string bus = cuda_pci_bus(bench.runtime_.state().options, bench.set_up_.device.ordinal);
    auto clock = tuning::open_nvml_clock(std::string(kNvmlLibrary), bus);
    if (clock) {
      bench.clock_ = std::move(*clock);
    } else {
      bench.clock_not_watched_ = clock.error().message;
    }
  }
  return bench;
}

Result<> SparseMlaTuningBench::place_points(std::int64_t heads, const std::function<void(std::string_view)>& stage) {
  if (heads == heads_) return {};
  points_.clear();
  heads_ = 0;
  for (const PointSpec& spec : specs_) {
    stage(spec.name + ": input");
    auto input = make_input(spec, heads, 0);
    if (!input) return fail(std::move(input.error()).within(spec.name));
    auto tensors = place_rotated(runtime_, set_up_.device, spec, *input, Bytes{});
    if (!tensors) return fail(std::move(tensors.error()).within(spec.name));
    points_.push_back({std::move(*input), std::move(*tensors), {}});
  }
  heads_ = heads;
  return {};
}

Result<SparseMlaPrefill> SparseMlaTuningBench::make_op(const tuning::Task& task) {
  const Specialisation& constants = task.subject.specialisation;
  const auto group = static_cast<int>(integer_of(constants, "group_size"));
  SparseMlaPrefillOptions options;
  options.device = set_up_.device;
  options.heads = static_cast<int>(integer_of(constants, "heads"));
  options.d_qk = static_cast<int>(integer_of(constants, "d_qk"));
  options.group_size = group == 1 ? 0 : group;
  options.tile = task.tile;
  options.max_topk = 1;
  for (const Point& point : points_) options.max_topk = std::max(options.max_topk, static_cast<int>(point.input.topk));
  auto op = SparseMlaPrefill::create(runtime_, options);
  if (!op) return op;
  const PrepareReport prefill = op->reports().back();
  if (prefill.tile_fitted != task.tile) return fail(ErrorCode::does_not_fit, prefill.fit_reason);
  return op;
}

/// From the run's folder, or computed and put there for the next process.
Result<const support::SparseMlaReference*> SparseMlaTuningBench::reference(std::size_t point, bool with_union) {
  auto& known = points_[point].references;
  if (const auto place = known.find(with_union); place != known.end()) return &place->second;
  const auto file = set_up_.references / fmt::format("heads{}-shape{}-{}.safetensors", heads_, point, with_union ? "union" : "token");
  if (auto stored = support::read_reference(file)) return &known.emplace(with_union, std::move(*stored)).first->second;
  const SparseMlaInput& input = points_[point].input;
  const auto tokens = support::checked_tokens(input.tokens, kLargestGroup, set_up_.points.seed);
  support::SparseMlaReference made = reference_of(input, tokens, with_union ? 1 : 0);
  if (auto written = support::write_reference(file, made); !written) return fail(std::move(written.error()));
  return &known.emplace(with_union, std::move(made)).first->second;
}

Result<std::string> SparseMlaTuningBench::judge(std::size_t point, const SparseMlaPrefill& op) {
  Point& at = points_[point];
  const auto expected = reference(point, op.union_used() > 0);
  if (!expected) return fail(Error(expected.error()));
  auto output = run_once(runtime_, set_up_.device, op, at.tensors.front(), at.input);
  if (!output) return fail(std::move(output.error()));
  return support::check_sparse_mla(**expected, {output->out, output->lse, output->max_logits}).first_failure;
}

Result<Measurement> SparseMlaTuningBench::measure(const tuning::Task& task, const std::vector<double>& give_up_ms,
                                                  const std::function<void(std::string_view)>& stage) {
  if (auto placed = place_points(integer_of(task.subject.specialisation, "heads"), stage); !placed) return fail(std::move(placed.error()));
  Measurement measurement{task, Outcome::measured, {}, {}, clock_not_watched_};
  const auto ended = [&](Outcome outcome, std::string reason) {
    measurement.outcome = outcome;
    measurement.reason = std::move(reason);
    return measurement;
  };
  stage("preparing");
  const auto op = make_op(task);
  if (!op) return ended(outcome_of(op.error()), op.error().text());
  for (std::size_t i = 0; i < points_.size(); ++i) {
    Point& point = points_[i];
    const std::string& name = specs_[i].name;
    for (DeviceTensors& tensors : point.tensors) {
      const Bytes workspace = op->workspace_bytes(point.input.tokens, point.input.kv_rows);
      if (auto grown = grow_workspace(runtime_, set_up_.device, tensors, workspace); !grown) return fail(std::move(grown.error()));
    }
    if (task.phase == tuning::Phase::search) {
      if (auto known = reference(i, op->union_used() > 0); !known) return fail(std::move(known.error()));
      stage(name + ": check");
      const auto failure = judge(i, *op);
      if (!failure) return ended(outcome_of(failure.error()), fmt::format("{}: {}", name, failure.error().text()));
      if (!failure->empty()) return ended(Outcome::wrong, fmt::format("{}: {}", name, *failure));
    }
    stage(name + ": timing");
    tuning::ClockWatch watch(clock_.get());
    const TimingOptions options{set_up_.warm_ups, set_up_.repetitions, i < give_up_ms.size() ? give_up_ms[i] : 0, &watch};
    Result<Timing> timing = fail(ErrorCode::internal, "nothing was timed");
    const auto span = tuning::watched(watch, [&] {
      timing = time_op(runtime_, set_up_.device, *op, point.tensors, options);
      return timing && !timing->given_up;
    });
    if (!timing) return ended(outcome_of(timing.error()), fmt::format("{}: {}", name, timing.error().text()));
    measurement.shapes.push_back({name, std::move(timing->total_ms), span});
    if (timing->given_up) return ended(Outcome::hopeless, fmt::format("{}: slower than {:.4g} ms", name, options.give_up_ms));
  }
  return measurement;
}

}  // namespace kernwright::tool
