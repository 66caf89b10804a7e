#include "prepare/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/specialised_name.hpp"

namespace kernwright {
namespace {

constexpr int kThreadsPerBlock = 1024;  // every compute capability since 2.0, CUDA C++ programming guide

std::string tile_list(const std::vector<Candidate>& candidates) {
  std::string list;
  for (const Candidate& candidate : candidates) list += fmt::format("{}{}", list.empty() ? "" : ", ", candidate.tile.text());
  return list.empty() ? "none" : list;
}

}  // namespace

Result<Specialised> specialise(Runtime::State& state, const std::string& template_name, const Specialisation& given) {
  auto templates = state.templates();
  if (!templates) return fail(std::move(templates.error()));
  auto definition = (*templates)->find(template_name);
  if (!definition) return fail(std::move(definition.error()));
  auto specialisation = (*definition)->manifest.complete(given);
  if (!specialisation) return fail(std::move(specialisation.error()));
  return Specialised{std::move(*definition), std::move(*specialisation)};
}

BlockLimits limits_of(const DeviceInfo& device) {
  return {device.name, device.shared_memory_per_block, device.max_threads_per_block};
}

Result<BlockLimits> limits_of(Runtime::State& state, const Target& target) {
  if (target.is_host()) {
    auto host = state.device(DeviceId::host());
    if (!host) return fail(std::move(host.error()));
    return limits_of(*host);
  }
  Bytes shared{static_cast<std::uint64_t>(target.shared_memory_bytes())};
  if (state.options.shared_memory_limit) shared = std::min(shared, *state.options.shared_memory_limit);
  return BlockLimits{target.name(), shared, kThreadsPerBlock};
}

std::string over_limit(const Plan& plan, const BlockLimits& limits) {
  if (static_cast<std::uint64_t>(plan.dynamic_shared) > limits.shared_memory.count) {
    return fmt::format("needs {} bytes of dynamic shared memory a block, {} offers {}", plan.dynamic_shared, limits.owner,
                       limits.shared_memory.count);
  }
  if (plan.threads > limits.max_threads) {
    return fmt::format("needs {} threads a block, {} offers {}", plan.threads, limits.owner, limits.max_threads);
  }
  return {};
}

Result<PlanTable> obtain_plans(Runtime::State& state, const TemplateDefinition& definition, const Specialisation& specialisation,
                               const std::optional<Tile>& asked, const Target& target, Compiler& compiler) {
  const Manifest& manifest = definition.manifest;
  if (asked) {
    if (auto checked = manifest.check_tile(*asked); !checked) return fail(std::move(checked.error()));
  }
  const std::vector<Tile> tiles = manifest.candidates(asked, target);
  if (tiles.empty()) {
    return fail(ErrorCode::unsupported, fmt::format("template {} has no variant for target {}", manifest.name, target.name()));
  }
  std::vector<Tile> planned = manifest.candidates(std::nullopt, target);
  if (std::find(planned.begin(), planned.end(), tiles.front()) == planned.end()) planned.push_back(tiles.front());
  auto request = plans_request(definition, specialisation, planned, target);
  if (!request) return fail(std::move(request.error()));
  auto obtained = state.artifacts->get_or_build(*request, compiler, asked);
  if (!obtained) return fail(std::move(obtained.error()));
  return PlanTable{std::move(planned), std::move(*obtained)};
}

Result<std::vector<Candidate>> legal_candidates(const PlanTable& table, const Manifest& manifest, const Specialisation& specialisation,
                                                const std::optional<Tile>& asked, const Target& target) {
  const std::vector<Tile> tiles = manifest.candidates(asked, target);
  std::vector<Candidate> candidates;
  for (const Tile& tile : tiles) {
    const auto place = std::find(table.tiles.begin(), table.tiles.end(), tile);
    if (place == table.tiles.end()) continue;
    const Plan& plan = table.obtained.artifact->plans[static_cast<std::size_t>(place - table.tiles.begin())];
    if (plan.legal()) candidates.push_back({tile, plan});
  }
  if (asked && (candidates.empty() || candidates.front().tile != *asked)) {
    const bool offered = !tiles.empty() && tiles.front() == *asked;
    return fail(offered ? ErrorCode::invalid_argument : ErrorCode::unsupported,
                fmt::format("tile {} is not legal for {}{}; legal tiles of the fall-back order are: {}", asked->text(),
                            specialised_name(manifest.name, specialisation), offered ? "" : fmt::format(" on target {}", target.name()),
                            tile_list(candidates)));
  }
  if (candidates.empty()) {
    return fail(ErrorCode::unsupported, fmt::format("no tile of template {} is legal", specialised_name(manifest.name, specialisation)));
  }
  return candidates;
}

Result<std::vector<Candidate>> legal_candidates(Runtime::State& state, const TemplateDefinition& definition,
                                                const Specialisation& specialisation, const std::optional<Tile>& asked,
                                                const Target& target, Compiler& compiler) {
  auto table = obtain_plans(state, definition, specialisation, asked, target, compiler);
  if (!table) return fail(std::move(table.error()));
  return legal_candidates(*table, definition.manifest, specialisation, asked, target);
}

}  // namespace kernwright
