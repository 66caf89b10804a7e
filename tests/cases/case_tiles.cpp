#include "cases/case_tiles.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "ops/sparse_mla_options.hpp"
#include "prepare/candidates.hpp"

namespace kernwright::cases {

std::vector<Tile> fitting_tiles(const Runtime& runtime, DeviceId device, const std::string& template_name,
                                const Specialisation& specialisation, const std::optional<Tile>& asked) {
  Runtime::State& state = runtime.state();
  auto specialised = specialise(state, template_name, specialisation);
  REQUIRE_MESSAGE(specialised, (specialised ? "" : specialised.error().text()));
  auto info = runtime.device(device);
  REQUIRE_MESSAGE(info, (info ? "" : info.error().text()));
  auto candidates = legal_candidates(state, *specialised->definition, specialised->specialisation, asked, info->target,
                                     state.backend(device.backend)->compiler());
  if (!candidates && asked && candidates.error().code == ErrorCode::invalid_argument) return {};
  REQUIRE_MESSAGE(candidates, (candidates ? "" : candidates.error().text()));
  std::vector<Tile> tiles;
  for (const Candidate& candidate : *candidates) {
    if (over_limit(candidate.plan, limits_of(*info)).empty()) tiles.push_back(candidate.tile);
  }
  return tiles;
}

std::vector<Tile> fitting_tiles(const Runtime& runtime, DeviceId device, const SparseMlaCase& c, const std::optional<Tile>& asked) {
  return fitting_tiles(runtime, device, kPrefillTemplate, prefill_specialisation(options_of(c, device), std::max(1, c.group_size)), asked);
}

std::optional<Tile> first_tile(const Runtime& runtime, DeviceId device, const SparseMlaCase& c, const char* variant,
                               const std::optional<Tile>& asked) {
  for (const Tile& tile : fitting_tiles(runtime, device, c, asked)) {
    if (tile.variant == variant) return tile;
  }
  return std::nullopt;
}

}  // namespace kernwright::cases
