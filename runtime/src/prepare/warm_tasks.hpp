// Warm, first half: what a request comes to before any kernel is compiled.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernwright/warming.hpp"
#include "prepare/candidates.hpp"
#include "prepare/table_rows.hpp"

namespace kernwright {

/// A request made complete, for one device that may ask for it.
struct WarmTask {
  std::shared_ptr<const TemplateDefinition> definition;
  Specialisation specialisation;
  Target target;
  BlockLimits limits;
  std::optional<Tile> asked;
  TileMatches rows;  ///< Without a tile asked for: what tuning tables say, best first.
  bool fall_backs = true;

  /// Equal tasks have equal words.
  [[nodiscard]] std::string words() const;
};

/// One task, or several where tuning tables name other tiles for single devices of the target: which device will come is not known.
/// Compiles nothing. Errors: not_found, invalid_argument, driver_unavailable for a request with a device.
Result<std::vector<WarmTask>> tasks_of(Runtime::State& state, const WarmRequest& request);

struct PlannedTask {
  std::vector<Candidate> candidates;  ///< In the order that prepare would try them.
  EntryKey plans;                     ///< The plan table's entry.
  bool plans_built = false;           ///< By this call.
};
/// Has the plan table, compiling it where it is new.
Result<PlannedTask> plan_task(Runtime::State& state, const WarmTask& task);

}  // namespace kernwright
