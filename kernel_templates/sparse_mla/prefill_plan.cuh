// sparse_mla/prefill: the plan, and where what stands in shared memory. mla/tile_layout.cuh says what the tile axes mean.
#pragma once

#include "common/types.cuh"
#include "kernwright/specialisation.cuh"
#include "mla/tile_layout.cuh"
#include "sparse_mla/prefill_params.cuh"

namespace kw::sparse_mla {

using mla::d_v;

struct PrefillLayout : mla::TileLayout {
  // A block works on `heads_per_block` heads of the group_size tokens of one group: block_m = group_size · heads_per_block rows.
  int heads_per_block = 0;
  int head_tiles = 0;      // blocks a group
  int barrier_offset = 0;  // wgmma: mbarriers
  int blocks_per_sm = 0;   // wgmma: persistent blocks
};

/// wgmma: a gathering, a scoring and two value warpgroups.
inline constexpr int wgmma_warps = 16;
inline constexpr int wgmma_probability_slots = 2;
inline constexpr int wgmma_register_panels = 5;  // of 64 columns of Q; the others are in shared memory

constexpr PrefillLayout prefill_layout(const Specialisation& specialisation, const Tile& tile) {
  const int rows = specialisation.heads * specialisation.group_size;
  PrefillLayout layout;
  // A tile half of which could only ever be padding is not offered, nor one that cannot hold a head of every token of the group.
  const bool rows_fit = tile.block_m >= specialisation.group_size && (tile.block_m == 16 || tile.block_m < 2 * rows);
  if (!rows_fit) return layout;
  layout.heads_per_block = tile.block_m / specialisation.group_size;
  layout.head_tiles = ceil_div(specialisation.heads, layout.heads_per_block);

  if (tile.variant == Variant::wgmma) {
    // Rows lie in panels of 64 columns, 128 bytes a row, as wgmma's 128-byte swizzle wants them; a panel of a stage is 32 keys.
    layout.threads = tile.warps * 32;
    layout.chunks = specialisation.d_qk / 8;
    layout.legal = tile.block_m == 64 && tile.block_n == 32 && tile.warps == wgmma_warps && target_capability == 90;
    layout.row_bytes = specialisation.d_qk * 2;
    layout.probability_bytes = tile.block_n * 2;
    layout.blocks_per_sm = 1;
    layout.query_offset = tile.stages * tile.block_n * layout.row_bytes;  // the panels of Q that are not in registers
    layout.probability_offset = layout.query_offset + (specialisation.d_qk - 64 * wgmma_register_panels) * 2 * tile.block_m;
    layout.row_offset = layout.probability_offset + wgmma_probability_slots * tile.block_m * layout.probability_bytes;  // factors a slot
    layout.owners_offset = layout.row_offset + wgmma_probability_slots * tile.block_m * 4;
    layout.barrier_offset = layout.owners_offset + tile.stages * tile.block_n * 4;
    layout.bytes = layout.barrier_offset + (2 * tile.stages + 2 * wgmma_probability_slots) * 8;
    return layout;
  }

  static_cast<mla::TileLayout&>(layout) = mla::tile_layout(specialisation.d_qk, tile);
  return layout;
}

}  // namespace kw::sparse_mla

namespace kw {

constexpr Plan make_plan(const Specialisation& specialisation, const Tile& tile) {
  const sparse_mla::PrefillLayout layout = sparse_mla::prefill_layout(specialisation, tile);
  Plan plan;
  plan.params_bytes = static_cast<int>(sizeof(sparse_mla::PrefillParams));
  if (!layout.legal) return plan;
  plan.threads = layout.threads;
  plan.dynamic_shared = layout.bytes;
  plan.rows_per_block = tile.block_m;
  plan.blocks_per_sm = layout.blocks_per_sm;
  return plan;
}

}  // namespace kw
