// paged_kv/update_tables: the plan.
#pragma once

#include "kernwright/specialisation.cuh"
#include "paged_kv/update_tables_params.cuh"

namespace kw {

constexpr Plan make_plan(const Specialisation&, const Tile& tile) {
  Plan plan;
  plan.threads = tile.warps * 32;
  plan.rows_per_block = paged_kv::most_cells;
  plan.params_bytes = static_cast<int>(sizeof(paged_kv::UpdateTablesParams));
  return plan;
}

}  // namespace kw
