#include "prepare/dispatcher.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/specialised_name.hpp"
#include "prepare/candidates.hpp"
#include "prepare/fit_record.hpp"
#include "prepare/kernel_state.hpp"
#include "prepare/table_rows.hpp"

namespace kernwright {
namespace {

/// One prepare: what stays the same while candidates are tried.
struct Attempt {
  Runtime::State& state;
  const PrepareRequest& request;
  std::shared_ptr<const TemplateDefinition> definition;
  Specialisation specialisation;
  DeviceInfo device;
  std::shared_ptr<Backend> backend;
};

Result<Attempt> begin(Runtime::State& state, const PrepareRequest& request) {
  auto specialised = specialise(state, request.template_name, request.specialisation);
  if (!specialised) return fail(std::move(specialised.error()));
  auto device = state.device(request.device);
  if (!device) return fail(std::move(device.error()));
  if (device->id.backend == BackendKind::cuda && device->target.is_host()) {
    // A device that no target exists for is listed all the same; it is refused here, with its capability.
    auto target = Target::for_capability(device->capability_major, device->capability_minor);
    if (!target) return fail(std::move(target.error()).within(device->name));
  }
  return Attempt{state, request, specialised->definition, specialised->specialisation, *device, state.backend(request.device.backend)};
}

/// The candidates in order; the first is the tile that counts as asked for.
Result<std::vector<Candidate>> ordered_candidates(Attempt& attempt) {
  Compiler& compiler = attempt.backend->compiler();
  const TemplateDefinition& definition = *attempt.definition;
  const auto legal = [&](const std::optional<Tile>& asked) {
    return legal_candidates(attempt.state, definition, attempt.specialisation, asked, attempt.device.target, compiler);
  };
  if (attempt.request.tile) return legal(attempt.request.tile);

  auto tables = attempt.state.tables();
  if (!tables) return fail(std::move(tables.error()));
  const TileMatches matches = table_rows(attempt.state, **tables, definition, attempt.specialisation, attempt.device);
  auto tuned = first_legal(attempt.state, **tables, definition, matches, legal);
  if (!tuned) return fail(std::move(tuned.error()));
  if (tuned->value) return std::move(*tuned->value);
  // Where a row was passed over, a warning has said what to do already.
  if (!tuned->passed_over) tell_of_default_tile(attempt.state, **tables, definition, attempt.specialisation, attempt.device);
  return legal(std::nullopt);
}

struct Loaded {
  std::unique_ptr<LoadedKernel> kernel;
  Obtained obtained;
  Plan plan;
};

Result<Loaded> load_once(const Attempt& attempt, Obtained obtained) {
  auto kernel = attempt.backend->load(attempt.device, *obtained.artifact);
  if (!kernel) return fail(std::move(kernel.error()));
  const Plan plan = obtained.artifact->plans.front();
  return Loaded{std::move(*kernel), std::move(obtained), plan};
}

/// Obtains, loads and fits one candidate. does_not_fit: try the next one; any other error is final.
Result<Loaded> try_candidate(const Attempt& attempt, const Candidate& candidate) {
  if (std::string problem = over_limit(candidate.plan, limits_of(attempt.device)); !problem.empty()) {
    return fail(ErrorCode::does_not_fit, std::move(problem));
  }
  if (static_cast<std::size_t>(candidate.plan.params_bytes) != attempt.request.params_bytes) {
    return fail(ErrorCode::load_failed,
                fmt::format("the kernel's parameter struct has {} bytes, the caller's {}: they were not made from the same header",
                            candidate.plan.params_bytes, attempt.request.params_bytes));
  }
  auto request = kernel_request(*attempt.definition, attempt.specialisation, candidate.tile, attempt.device.target);
  if (!request) return fail(std::move(request.error()));
  Compiler& compiler = attempt.backend->compiler();
  auto obtained = attempt.state.artifacts->get_or_build(*request, compiler);
  if (!obtained) return fail(std::move(obtained.error()));

  const bool built_here = obtained->source == CacheSource::built;
  const ArtifactPointer artifact = obtained->artifact;
  auto loaded = load_once(attempt, std::move(*obtained));
  if (!loaded && loaded.error().code == ErrorCode::load_failed && !built_here) {
    // The entry verified, yet the driver refuses it: one build anew settles whether the entry or the machine is at fault.
    attempt.state.logger(LogLevel::warn, fmt::format("an entry of the store is refused and is built anew: {}", loaded.error().text()));
    auto rebuilt = attempt.state.artifacts->rebuild(*request, compiler, artifact);
    if (!rebuilt) {
      Error refusal = std::move(loaded.error());
      refusal.message += ". It could not be built anew: " + rebuilt.error().text();
      return fail(std::move(refusal));
    }
    loaded = load_once(attempt, std::move(*rebuilt));
  }
  if (!loaded) return loaded;
  if (loaded->plan != candidate.plan) {
    return fail(
        ErrorCode::load_failed,
        "the plan inside the kernel is not the plan that its header gives: kw_plan must be kw::make_plan(kw::specialisation, kw::tile)");
  }
  if (auto fitted = loaded->kernel->fit(loaded->plan); !fitted) return fail(std::move(fitted.error()));
  return loaded;
}

Kernel finish(const Attempt& attempt, Loaded loaded, const Tile& asked, const Tile& fitted, std::string reason, bool recorded) {
  auto state = std::make_shared<Kernel::State>();
  state->backend = attempt.backend;
  state->plan = loaded.plan;
  PrepareReport& report = state->report;
  report.template_name = attempt.definition->manifest.name;
  report.specialisation = attempt.specialisation;
  report.target = attempt.device.target;
  report.device = attempt.device.id;
  report.tile_asked = asked;
  report.tile_fitted = fitted;
  report.fit_reason = std::move(reason);
  report.fit_recorded = recorded;
  report.cache = loaded.obtained.source;
  report.compile_ms = loaded.obtained.compile_ms;
  report.key = loaded.obtained.artifact->key.hex();
  report.resources = loaded.obtained.artifact->resources;
  state->loaded = std::move(loaded.kernel);
  state->launches = attempt.state.counters->launches_of(report.template_name);
  return Kernel(std::move(state));
}

Result<Kernel> step_down(Attempt& attempt, const std::vector<Candidate>& candidates) {
  const Tile asked = candidates.front().tile;
  auto record =
      FitRecord::open(attempt.state, attempt.backend->compiler(), {attempt.definition, attempt.specialisation, attempt.device, asked});
  if (!record) return fail(std::move(record.error()));

  std::string reasons;
  const auto passed_over = [&](const Tile& tile, const Error& error) {
    count(attempt.state.counters->step_downs);
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", tile.text(), error.message);
  };
  std::size_t first = 0;
  if (attempt.request.after) {
    const auto behind =
        std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& c) { return c.tile == *attempt.request.after; });
    if (behind == candidates.end()) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("after: tile {} is not among the candidates for {}", attempt.request.after->text(), asked.text()));
    }
    first = static_cast<std::size_t>(behind - candidates.begin()) + 1;
    reasons = fmt::format("{}: a launch was refused for resources", attempt.request.after->text());
  } else if (const auto fit = record->read(candidates)) {
    const auto known = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& c) { return c.tile == fit->fitted; });
    auto loaded = try_candidate(attempt, *known);
    if (loaded) return finish(attempt, std::move(*loaded), asked, fit->fitted, fit->reason, true);
    if (loaded.error().code != ErrorCode::does_not_fit) return fail(std::move(loaded.error()));
  }

  for (std::size_t i = first; i < candidates.size(); ++i) {
    const Tile& tile = candidates[i].tile;
    auto loaded = try_candidate(attempt, candidates[i]);
    if (loaded) {
      if (tile != asked) {
        attempt.state.logger(LogLevel::info, fmt::format("{}: {} fits; {}", attempt.definition->manifest.name, tile.text(), reasons));
        record->write(tile, reasons, loaded->obtained.artifact->compiler);
      }
      return finish(attempt, std::move(*loaded), asked, tile, tile == asked ? std::string{} : reasons, false);
    }
    if (loaded.error().code != ErrorCode::does_not_fit) return fail(std::move(loaded.error()).within("tile " + tile.text()));
    passed_over(tile, loaded.error());
  }
  return fail(ErrorCode::does_not_fit,
              fmt::format("no tile of {} fits {} ({}): {}", specialised_name(attempt.definition->manifest.name, attempt.specialisation),
                          attempt.device.name, attempt.device.target.name(), reasons));
}

}  // namespace

Result<Kernel> prepare_kernel(Runtime::State& state, const PrepareRequest& request) {
  const std::string step =
      fmt::format("preparing {} on {}", specialised_name(request.template_name, request.specialisation), to_string(request.device));
  auto attempt = begin(state, request);
  if (!attempt) return fail(std::move(attempt.error()).within(step));
  auto candidates = ordered_candidates(*attempt);
  if (!candidates) return fail(std::move(candidates.error()).within(step));
  auto kernel = step_down(*attempt, *candidates);
  if (!kernel) return fail(std::move(kernel.error()).within(step));
  state.launch_record.add(kernel->report(), request.tile);
  return kernel;
}

}  // namespace kernwright
