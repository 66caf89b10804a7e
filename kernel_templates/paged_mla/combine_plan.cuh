// paged_mla/combine: the plan. A block a row, four of its 512 columns a thread.
#pragma once

#include "kernwright/specialisation.cuh"
#include "paged_mla/combine_params.cuh"

namespace kw::paged_mla {

inline constexpr int columns = 512;
inline constexpr int columns_a_thread = 4;

}  // namespace kw::paged_mla

namespace kw {

constexpr Plan make_plan(const Specialisation&, const Tile& tile) {
  Plan plan;
  plan.params_bytes = static_cast<int>(sizeof(paged_mla::CombineParams));
  if (tile.warps * 32 * paged_mla::columns_a_thread != paged_mla::columns) return plan;
  plan.threads = tile.warps * 32;
  plan.dynamic_shared = tile.warps * 4;  // a word a warp
  plan.rows_per_block = tile.block_m;
  plan.programmatic_launch = target_capability >= 90 ? 1 : 0;  // it starts, and finds its request, while the attention still runs
  return plan;
}

}  // namespace kw
