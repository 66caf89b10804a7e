// paged_kv/block_table: the plan. A multiplier without a table has no meaning: static pools hold one layer a page.
//
// A block writes rows_per_block = threads · block_n cells of one request at a time, block_n of them a thread.
#pragma once

#include "kernwright/specialisation.cuh"
#include "paged_kv/block_table_params.cuh"

namespace kw {

constexpr Plan make_plan(const Specialisation& specialisation, const Tile& tile) {
  Plan plan;
  plan.params_bytes = static_cast<int>(sizeof(paged_kv::BlockTableParams));
  if (!(specialisation.has_table != 0 || specialisation.multiplier == 1)) return plan;
  plan.threads = tile.warps * 32;
  plan.programmatic_launch = target_capability >= 90 ? 1 : 0;  // its blocks stand ready by the time that the kernel in front has ended
  plan.rows_per_block = plan.threads * tile.block_n;
  return plan;
}

}  // namespace kw
