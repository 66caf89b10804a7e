// Warm: compiles into the store what a device of the target would ask for, without the device.
#include <fmt/format.h>

#include "prepare/candidates.hpp"
#include "prepare/dispatcher.hpp"

namespace kernwright {
namespace {

/// The table's tile for a device of which only the target is known.
Result<std::optional<Tile>> table_tile(Runtime::State& state, const WarmRequest& request, const Specialisation& specialisation) {
  if (request.tile) return request.tile;
  auto tables = state.tables();
  if (!tables) return fail(std::move(tables.error()));
  DeviceInfo device;
  device.target = request.target;
  const auto match = (*tables)->tile(request.template_name, specialisation, device);
  return match ? std::optional<Tile>(match->tile) : std::nullopt;
}

}  // namespace

Result<std::vector<WarmedItem>> warm_template(Runtime::State& state, const WarmRequest& request) {
  auto specialised = specialise(state, request.template_name, request.specialisation);
  if (!specialised) return fail(std::move(specialised.error()));
  const auto& [definition, specialisation] = *specialised;
  auto limits = limits_of(state, request.target);
  if (!limits) return fail(std::move(limits.error()));
  auto asked = table_tile(state, request, specialisation);
  if (!asked) return fail(std::move(asked.error()));
  Compiler& compiler = state.backend(request.target.is_host() ? BackendKind::host : BackendKind::cuda)->compiler();
  auto candidates = legal_candidates(state, *definition, specialisation, *asked, request.target, compiler);
  if (!candidates && *asked && !request.tile) {
    state.warn_once(fmt::format("a tuning table names a tile that is ignored: {}", candidates.error().text()));
    candidates = legal_candidates(state, *definition, specialisation, std::nullopt, request.target, compiler);
  }
  if (!candidates) return fail(std::move(candidates.error()));

  std::vector<WarmedItem> items;
  for (const Candidate& candidate : *candidates) {
    WarmedItem& item = items.emplace_back();
    item.tile = candidate.tile;
    item.plan = candidate.plan;
    item.skipped = over_limit(candidate.plan, *limits);
    if (!item.skipped.empty()) continue;
    auto build = kernel_request(*definition, specialisation, candidate.tile, request.target);
    if (!build) return fail(std::move(build.error()));
    auto obtained = state.artifacts->get_or_build(*build, compiler);
    if (!obtained) {
      const bool too_large = obtained.error().code == ErrorCode::does_not_fit;
      (too_large ? item.skipped : item.error) = obtained.error().text();
      if (too_large || request.fall_backs) continue;
      break;
    }
    item.key = obtained->artifact->key.hex();
    item.cache = obtained->source;
    item.compile_ms = obtained->compile_ms;
    item.resources = obtained->artifact->resources;
    if (!request.fall_backs) break;
  }
  return items;
}

}  // namespace kernwright
