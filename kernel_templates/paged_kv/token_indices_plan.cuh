// paged_kv/token_indices: the plan. A multiplier without a table has no meaning: static pools hold one layer a page.
#pragma once

#include "kernwright/specialisation.cuh"
#include "paged_kv/token_indices_params.cuh"

namespace kw {

constexpr Plan make_plan(const Specialisation& specialisation, const Tile& tile) {
  Plan plan;
  plan.params_bytes = static_cast<int>(sizeof(paged_kv::TokenIndicesParams));
  if (!(specialisation.has_table != 0 || specialisation.multiplier == 1)) return plan;
  plan.threads = tile.warps * 32;
  plan.rows_per_block = 1;
  return plan;
}

}  // namespace kw
