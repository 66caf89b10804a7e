#include "prepare/warm_tasks.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kernwright {
namespace {

/// What is known of the devices that a request is for: one that is here, or any of the target.
Result<DeviceInfo> device_of(Runtime::State& state, const WarmRequest& request) {
  if (request.device) return state.device(*request.device);
  DeviceInfo any;
  any.target = request.target;
  return any;
}

/// Every tile that the tables may name: the one for the device, and where none is known, those for each device that a row names.
Result<std::vector<Tile>> table_tiles(Runtime::State& state, const Specialised& specialised, DeviceInfo device, bool known_device) {
  auto tables = state.tables();
  if (!tables) return fail(std::move(tables.error()));
  std::vector<std::string> names{device.name};
  if (!known_device) {
    for (std::string& name : (*tables)->device_names(device.target)) names.push_back(std::move(name));
  }
  std::vector<Tile> tiles;
  for (std::string& name : names) {
    device.name = std::move(name);
    const TemplateDefinition& definition = *specialised.definition;
    const auto match = (*tables)->tile({definition.manifest.name, specialised.specialisation, device, definition.digest});
    if (match && std::ranges::find(tiles, match->tile) == tiles.end()) tiles.push_back(match->tile);
  }
  return tiles;
}

}  // namespace

std::string WarmTask::words() const {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", definition->manifest.name, specialisation.text(), target.name(),
                     asked ? asked->text() : "", fall_backs, limits.owner, limits.shared_memory.count);
}

Result<std::vector<WarmTask>> tasks_of(Runtime::State& state, const WarmRequest& request) {
  auto specialised = specialise(state, request.template_name, request.specialisation);
  if (!specialised) return fail(std::move(specialised.error()));
  auto device = device_of(state, request);
  if (!device) return fail(std::move(device.error()));
  auto limits = request.device ? Result<BlockLimits>(limits_of(*device)) : limits_of(state, request.target);
  if (!limits) return fail(std::move(limits.error()));
  WarmTask task{specialised->definition, specialised->specialisation, device->target, std::move(*limits), request.tile, false,
                request.fall_backs};
  if (request.tile) return std::vector<WarmTask>{std::move(task)};

  auto tiles = table_tiles(state, *specialised, *device, request.device.has_value());
  if (!tiles) return fail(std::move(tiles.error()));
  if (tiles->empty()) return std::vector<WarmTask>{std::move(task)};
  std::vector<WarmTask> tasks;
  task.asked_by_table = true;
  for (Tile& tile : *tiles) {
    task.asked = std::move(tile);
    tasks.push_back(task);
  }
  return tasks;
}

Result<PlannedTask> plan_task(Runtime::State& state, const WarmTask& task) {
  Compiler& compiler = state.backend(task.target.is_host() ? BackendKind::host : BackendKind::cuda)->compiler();
  const auto planned_for = [&](const std::optional<Tile>& asked) -> Result<PlannedTask> {
    auto table = obtain_plans(state, *task.definition, task.specialisation, asked, task.target, compiler);
    if (!table) return fail(std::move(table.error()));
    auto candidates = legal_candidates(*table, task.definition->manifest, task.specialisation, asked, task.target);
    if (!candidates) return fail(std::move(candidates.error()));
    return PlannedTask{std::move(*candidates), table->obtained.artifact->key, table->obtained.source == CacheSource::built};
  };
  auto planned = planned_for(task.asked);
  if (planned || !task.asked_by_table) return planned;
  if (planned.error().code != ErrorCode::invalid_argument && planned.error().code != ErrorCode::unsupported) return planned;
  state.warn_once(fmt::format("a tuning table names a tile that is ignored: {}", planned.error().text()));
  return planned_for(std::nullopt);
}

}  // namespace kernwright
