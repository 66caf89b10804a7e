// paged_mla/combine: the plan. A block a row, four of its 512 columns a thread; each 128 threads take a part of the pieces.
#pragma once

#include "kernwright/specialisation.cuh"
#include "paged_mla/combine_params.cuh"

namespace kw::paged_mla {

inline constexpr int columns = 512;
inline constexpr int columns_a_thread = 4;
inline constexpr int threads_a_part = columns / columns_a_thread;
inline constexpr int combine_scratch_bytes = 128;  // a word a warp

/// What the parts but the first leave for it: their sums of 512 columns, and of weights.
struct PartSums {
  float output[columns];
  float weight;
};

}  // namespace kw::paged_mla

namespace kw {

constexpr Plan make_plan(const Specialisation&, const Tile& tile) {
  Plan plan;
  plan.params_bytes = static_cast<int>(sizeof(paged_mla::CombineParams));
  if (tile.warps * 32 % paged_mla::threads_a_part != 0) return plan;
  plan.threads = tile.warps * 32;
  const int parts = tile.warps * 32 / paged_mla::threads_a_part;
  plan.dynamic_shared = paged_mla::combine_scratch_bytes + (parts - 1) * static_cast<int>(sizeof(paged_mla::PartSums));
  plan.rows_per_block = tile.block_m;
  plan.programmatic_launch = target_capability >= 90 ? 1 : 0;  // it starts, and finds its request, while the attention still runs
  return plan;
}

}  // namespace kw
