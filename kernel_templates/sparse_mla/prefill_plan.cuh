// sparse_mla/prefill: the plan. What stands in shared memory, and what the tile axes mean, is in mla/tile_layout.cuh, mla/wgmma_layout.cuh
// and mla/wgmma_keys_layout.cuh.
#pragma once

#include "common/types.cuh"
#include "kernwright/specialisation.cuh"
#include "mla/tile_layout.cuh"
#include "mla/wgmma_keys_layout.cuh"
#include "mla/wgmma_layout.cuh"
#include "sparse_mla/prefill_params.cuh"

namespace kw::sparse_mla {

struct PrefillLayout {
  bool legal = false;
  int threads = 0;
  // A block works on `heads_per_block` heads of the group_size tokens of one group: block_m = group_size · heads_per_block rows.
  int heads_per_block = 0;
  int head_tiles = 0;     // blocks a group
  int blocks_per_sm = 0;  // wgmma, wgmma_keys: persistent blocks
  int bytes = 0;          // of shared memory
};

constexpr PrefillLayout prefill_layout(const Specialisation& specialisation, const Tile& tile) {
  const int rows = specialisation.heads * specialisation.group_size;
  PrefillLayout layout;
  layout.threads = tile.warps * 32;
  if (tile.variant == Variant::wgmma_keys) {
    const mla::WgmmaKeysLayout shared = mla::wgmma_keys_layout(specialisation.d_qk, tile);
    const int fewest_rows = specialisation.heads <= 8 ? 8 : specialisation.heads <= 16 ? 16 : 32;
    layout.heads_per_block = tile.block_m;
    layout.head_tiles = ceil_div(specialisation.heads, layout.heads_per_block);
    layout.blocks_per_sm = 1;
    layout.bytes = shared.bytes;
    layout.legal = shared.legal && specialisation.group_size == 1 && tile.block_m == fewest_rows;
    return layout;
  }
  // A tile half of which could only ever be padding is not offered, nor one that cannot hold a head of every token of the group.
  const bool rows_fit = tile.block_m >= specialisation.group_size && (tile.block_m == 16 || tile.block_m < 2 * rows);
  if (!rows_fit) return layout;
  layout.heads_per_block = tile.block_m / specialisation.group_size;
  layout.head_tiles = ceil_div(specialisation.heads, layout.heads_per_block);
  if (tile.variant == Variant::wgmma) {
    const mla::WgmmaLayout shared = mla::wgmma_layout(specialisation.d_qk, tile);
    layout.blocks_per_sm = 1;
    layout.bytes = shared.bytes;
    layout.legal = shared.legal;
    return layout;
  }
  const mla::TileLayout shared = mla::tile_layout(specialisation.d_qk, tile);
  layout.bytes = shared.bytes;
  layout.legal = shared.legal;
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
  plan.programmatic_launch = layout.blocks_per_sm > 0 ? 1 : 0;  // it is resident, and its barriers made, by the time the union is built
  return plan;
}

}  // namespace kw
