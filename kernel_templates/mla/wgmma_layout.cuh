// MLA attention of 64 rows on Hopper's warpgroup products: where everything stands in shared memory. mla/wgmma_attention.cuh draws it.
#pragma once

#include "common/types.cuh"
#include "kernwright/specialisation.cuh"

namespace kw::mla {

/// A gathering, a scoring and two values warpgroups.
inline constexpr int wgmma_warps = 16;
inline constexpr int wgmma_rows = 64;
inline constexpr int wgmma_probability_slots = 2;
inline constexpr int wgmma_work_slots = 2;
inline constexpr int wgmma_item_bytes = 32;  // of a piece of work

/// Panels of 64 columns of Q that the scoring warpgroup holds, 16 registers each, beside three tiles of 64 × block_n sums; the others are
/// in shared memory.
constexpr int wgmma_register_panels(int block_n) {
  return block_n == 32 ? 5 : 3;
}

struct WgmmaLayout {
  bool legal = false;
  int query_offset = 0;        // the panels of Q that are not in registers
  int probability_offset = 0;  // P: slots × 64 rows × block_n bf16
  int factors_offset = 0;      // float[slots][64]
  int owners_offset = 0;       // u32[stages][block_n]: bit i says that token i of the rows attends to the key; 0: an empty slot
  int barrier_offset = 0;      // mbarriers
  int work_offset = 0;         // the slots of the work queue
  int bytes = 0;
};

constexpr WgmmaLayout wgmma_layout(int d_qk, const Tile& tile) {
  WgmmaLayout layout;
  layout.legal =
      tile.block_m == wgmma_rows && (tile.block_n == 32 || tile.block_n == 48) && tile.warps == wgmma_warps && target_capability == 90;
  layout.query_offset = tile.stages * tile.block_n * d_qk * 2;
  layout.probability_offset = layout.query_offset + (d_qk - 64 * wgmma_register_panels(tile.block_n)) * 2 * wgmma_rows;
  layout.factors_offset = layout.probability_offset + wgmma_probability_slots * wgmma_rows * tile.block_n * 2;
  layout.owners_offset = layout.factors_offset + wgmma_probability_slots * wgmma_rows * 4;
  layout.work_offset = layout.owners_offset + tile.stages * tile.block_n * 4;
  layout.barrier_offset = layout.work_offset + wgmma_work_slots * wgmma_item_bytes;
  layout.bytes = layout.barrier_offset + 2 * (tile.stages + wgmma_probability_slots + wgmma_work_slots) * 8;
  return layout;
}

}  // namespace kw::mla
