// paged_mla/combine: the plan. 2^slice_bits blocks a row of the batch, 512 / 2^slice_bits columns each; a thread has four columns of the
// pieces of its group, and there are as many groups as the block has threads for.
#pragma once

#include "common/types.cuh"
#include "kernwright/specialisation.cuh"
#include "paged_mla/combine_params.cuh"

namespace kw::paged_mla {

inline constexpr int columns = 512;
inline constexpr int columns_a_thread = 4;
inline constexpr int row_bits = 7;
inline constexpr int threads_a_row = 1 << row_bits;
static_assert(threads_a_row * columns_a_thread == columns);

/// What a thread, and then what the groups of a warp, make of their pieces.
struct alignas(16) PartialMerge {
  float output[columns_a_thread];
};
struct MergeWeight {
  float reference;  // the pieces' largest logarithm; -inf: none has a key
  float sum;        // of 2^(l_i - reference)
};

/// In shared memory: two words a warp of scratch, where the pieces are, then a PartialMerge and a MergeWeight a thread.
struct CombineLayout {
  int pieces_offset = 0;
  int outputs_offset = 0;
  int weights_offset = 0;
  int bytes = 0;
};
constexpr CombineLayout combine_layout(int threads) {
  CombineLayout layout;
  layout.pieces_offset = round_up(threads / 32 * 2 * 4, 16);
  layout.outputs_offset = layout.pieces_offset + 32;
  layout.weights_offset = layout.outputs_offset + threads * static_cast<int>(sizeof(PartialMerge));
  layout.bytes = layout.weights_offset + threads * static_cast<int>(sizeof(MergeWeight));
  return layout;
}

}  // namespace kw::paged_mla

namespace kw {

constexpr Plan make_plan(const Specialisation&, const Tile& tile) {
  Plan plan;
  plan.params_bytes = static_cast<int>(sizeof(paged_mla::CombineParams));
  if (tile.warps * 32 % paged_mla::threads_a_row != 0) return plan;
  plan.threads = tile.warps * 32;
  plan.dynamic_shared = paged_mla::combine_layout(plan.threads).bytes;
  plan.rows_per_block = tile.block_m;
  plan.programmatic_launch = target_capability >= 90 ? 1 : 0;  // it starts, and finds its request, while the attention still runs
  return plan;
}

}  // namespace kw
