#include "tuning_bench.hpp"

#include <fmt/format.h>

#include "backend/cuda/diagnosis.hpp"
#include "paged_mla_tuning_bench.hpp"
#include "prepare/runtime_state.hpp"
#include "search/nvml_clock.hpp"
#include "sparse_mla_tuning_bench.hpp"

namespace kernwright::tool {
namespace {

using tuning::Measurement;
using tuning::Outcome;

constexpr std::string_view kNvmlLibrary = "libnvidia-ml.so.1";

/// How a kernel's error counts. Nothing where it is the machine's and would be every kernel's.
Outcome outcome_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::compile_failed: return Outcome::not_built;
    case ErrorCode::device_fault: return Outcome::faulted;
    default: return Outcome::refused;
  }
}

Result<std::unique_ptr<FamilyBench>> open_family(const Runtime& runtime, const WorkerSetUp& set_up, const StageListener& stage) {
  if (set_up.family == kSparseMlaFamily) return SparseMlaTuningBench::open(runtime, set_up);
  if (set_up.family == kPagedMlaFamily) return PagedMlaTuningBench::open(runtime, set_up, stage);
  return fail(ErrorCode::malformed, fmt::format("a worker's set-up: there is no family '{}'", set_up.family));
}

}  // namespace

std::int64_t integer_of(const Specialisation& specialisation, std::string_view name) {
  const auto value = specialisation.get(name);
  const auto* const number = value ? std::get_if<std::int64_t>(&*value) : nullptr;
  return number == nullptr ? 0 : *number;
}

Result<TuningBench> TuningBench::open(const Runtime& runtime, const WorkerSetUp& set_up, const StageListener& stage) {
  auto family = open_family(runtime, set_up, stage);
  if (!family) return fail(std::move(family.error()));
  TuningBench bench(std::move(*family));
  bench.warm_ups_ = set_up.warm_ups;
  bench.repetitions_ = set_up.repetitions;
  if (set_up.device.backend == BackendKind::cuda) {
    const std::string bus = cuda_pci_bus(runtime.state().options, set_up.device.ordinal);
    auto clock = tuning::open_nvml_clock(std::string(kNvmlLibrary), bus);
    if (clock) {
      bench.clock_ = std::move(*clock);
    } else {
      bench.clock_not_watched_ = clock.error().message;
    }
  }
  return bench;
}

Result<Measurement> TuningBench::measure(const tuning::Task& task, const std::vector<double>& give_up_ms, const StageListener& stage) {
  if (auto placed = family_->place(task.subject.specialisation, stage); !placed) return fail(std::move(placed.error()));
  Measurement measurement{task, Outcome::measured, {}, {}, clock_not_watched_};
  const auto ended = [&](Outcome outcome, std::string reason) {
    measurement.outcome = outcome;
    measurement.reason = std::move(reason);
    return measurement;
  };
  stage("preparing");
  if (const auto prepared = family_->prepare(task); !prepared) return ended(outcome_of(prepared.error()), prepared.error().text());
  const std::vector<std::string> shapes = family_->shapes();
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::string& name = shapes[i];
    const bool judged = task.phase == tuning::Phase::search;
    if (auto provided = family_->provide(i, judged, stage); !provided) return fail(std::move(provided.error()).within(name));
    if (judged) {
      stage(name + ": check");
      const auto failure = family_->judge(i);
      if (!failure) return ended(outcome_of(failure.error()), fmt::format("{}: {}", name, failure.error().text()));
      if (!failure->empty()) return ended(Outcome::wrong, fmt::format("{}: {}", name, *failure));
    }
    stage(name + ": timing");
    tuning::ClockWatch watch(clock_.get());
    const TimingOptions options{warm_ups_, repetitions_, i < give_up_ms.size() ? give_up_ms[i] : 0, &watch};
    Result<FamilyBench::Times> times = fail(ErrorCode::internal, "nothing was timed");
    const auto span = tuning::watched(watch, [&] {
      times = family_->time(i, options);
      return times && !times->given_up;
    });
    if (!times) return ended(outcome_of(times.error()), fmt::format("{}: {}", name, times.error().text()));
    measurement.shapes.push_back({name, std::move(times->milliseconds), span});
    if (times->given_up) return ended(Outcome::hopeless, fmt::format("{}: slower than {:.4g} ms", name, options.give_up_ms));
  }
  return measurement;
}

}  // namespace kernwright::tool
