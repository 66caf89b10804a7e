#include "search/search_space.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kernwright::tuning {
namespace {

constexpr std::size_t kPlansACompile = 64;  // one compile of the plan header over so many tiles takes about 40 ms

}  // namespace

std::vector<Tile> offered_tiles(const Manifest& manifest, const Target& target) {
  std::vector<Tile> tiles;
  for (const ManifestVariant& variant : manifest.variants) {
    if (!manifest.offers(variant, target)) continue;
    for (const std::int64_t block_m : variant.block_m) {
      for (const std::int64_t block_n : variant.block_n) {
        for (const std::int64_t stages : variant.stages) {
          for (const std::int64_t warps : variant.warps) {
            tiles.push_back(
                {variant.name, static_cast<int>(block_m), static_cast<int>(block_n), static_cast<int>(stages), static_cast<int>(warps)});
          }
        }
      }
    }
  }
  return tiles;
}

std::size_t SearchSpace::place_of(const Tile& tile) const {
  return static_cast<std::size_t>(std::ranges::find(points, tile, &Candidate::tile) - points.begin());
}

SearchSpace prune(std::span<const Tile> tiles, std::span<const Plan> plans, const BlockLimits& limits) {
  SearchSpace space;
  space.offered = tiles.size();
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    if (!plans[i].legal()) {
      ++space.illegal;
    } else if (std::string problem = over_limit(plans[i], limits); !problem.empty()) {
      ++space.over_limits;
      space.last_over_limit = fmt::format("{} {}", tiles[i].text(), problem);
    } else {
      space.points.push_back({tiles[i], plans[i]});
    }
  }
  return space;
}

Result<SearchSpace> search_space(Runtime::State& state, const Specialised& specialised, const DeviceInfo& device) {
  const TemplateDefinition& definition = *specialised.definition;
  const std::vector<Tile> tiles = offered_tiles(definition.manifest, device.target);
  if (tiles.empty()) {
    return fail(ErrorCode::unsupported,
                fmt::format("template {} has no variant for target {}", definition.manifest.name, device.target.name()));
  }
  Compiler& compiler = state.backend(device.id.backend)->compiler();
  std::vector<Plan> plans;
  while (plans.size() < tiles.size()) {
    const std::size_t count = std::min(kPlansACompile, tiles.size() - plans.size());
    const auto begin = tiles.begin() + static_cast<std::ptrdiff_t>(plans.size());
    const auto request =
        plans_request(definition, specialised.specialisation, {begin, begin + static_cast<std::ptrdiff_t>(count)}, device.target);
    if (!request) return fail(Error(request.error()));
    auto obtained = state.artifacts->get_or_build(*request, compiler);
    if (!obtained) return fail(std::move(obtained.error()).within(fmt::format("planning {}", definition.manifest.name)));
    plans.insert(plans.end(), obtained->artifact->plans.begin(), obtained->artifact->plans.end());
  }
  return prune(tiles, plans, limits_of(device));
}

Result<Tile> default_tile(const SearchSpace& space, const Manifest& manifest, const Target& target) {
  for (const Tile& tile : manifest.candidates(std::nullopt, target)) {
    if (space.place_of(tile) < space.points.size()) return tile;
  }
  return fail(ErrorCode::unsupported, fmt::format("no tile of the fall-back order of {} is legal on {}{}{}", manifest.name, target.name(),
                                                  space.last_over_limit.empty() ? "" : ": ", space.last_over_limit));
}

}  // namespace kernwright::tuning
