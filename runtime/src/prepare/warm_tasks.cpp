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

/// The rows for the device, and where none is known, those for each device that a row names; one empty list where there are none at all.
Result<std::vector<TileMatches>> table_choices(Runtime::State& state, const Specialised& specialised, DeviceInfo device,
                                               bool known_device) {
  auto tables = state.tables();
  if (!tables) return fail(std::move(tables.error()));
  std::vector<std::string> names{device.name};
  if (!known_device) {
    for (std::string& name : (*tables)->device_names(device.target)) names.push_back(std::move(name));
  }
  std::vector<TileMatches> choices;
  for (std::string& name : names) {
    device.name = std::move(name);
    TileMatches rows = table_rows(state, **tables, *specialised.definition, specialised.specialisation, device);
    if (!rows.empty()) choices.push_back(std::move(rows));
  }
  if (choices.empty()) choices.emplace_back();
  return choices;
}

std::string tile_list(const TileMatches& rows) {
  std::string list;
  for (const auto& row : rows) list += (row.stale ? "" : row.row.tile.text()) + " ";
  return list;
}

}  // namespace

std::string WarmTask::words() const {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", definition->manifest.name, specialisation.text(), target.name(),
                     asked ? asked->text() : tile_list(rows), fall_backs, limits.owner, limits.shared_memory.count);
}

Result<std::vector<WarmTask>> tasks_of(Runtime::State& state, const WarmRequest& request) {
  auto specialised = specialise(state, request.template_name, request.specialisation);
  if (!specialised) return fail(std::move(specialised.error()));
  auto device = device_of(state, request);
  if (!device) return fail(std::move(device.error()));
  auto limits = request.device ? Result<BlockLimits>(limits_of(*device)) : limits_of(state, request.target);
  if (!limits) return fail(std::move(limits.error()));
  WarmTask task{specialised->definition, specialised->specialisation, device->target, std::move(*limits), request.tile, {},
                request.fall_backs};
  if (request.tile) return std::vector<WarmTask>{std::move(task)};

  auto choices = table_choices(state, *specialised, *device, request.device.has_value());
  if (!choices) return fail(std::move(choices.error()));
  std::vector<WarmTask> tasks;
  for (TileMatches& rows : *choices) {
    task.rows = std::move(rows);
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
  if (task.rows.empty()) return planned_for(task.asked);
  auto tables = state.tables();
  if (!tables) return fail(std::move(tables.error()));
  auto tuned = first_legal(state, **tables, *task.definition, task.rows, planned_for);
  if (!tuned) return fail(std::move(tuned.error()));
  return tuned->value ? std::move(*tuned->value) : planned_for(std::nullopt);
}

}  // namespace kernwright
