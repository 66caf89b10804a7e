// MLA attention with the keys as the 64 rows of a warpgroup's products: where everything stands in shared memory.
// mla/wgmma_keys_attention.cuh draws it.
#pragma once

#include "common/types.cuh"
#include "kernwright/specialisation.cuh"
#include "mla/wgmma_layout.cuh"

namespace kw::mla {

/// A gathering and a computing warpgroup.
inline constexpr int wgmma_keys_warps = 8;
inline constexpr int wgmma_keys_block_n = 64;         // the rows of a warpgroup's product
inline constexpr int wgmma_keys_most_bytes = 232448;  // of shared memory, on the only target that has the instructions

struct WgmmaKeysLayout {
  bool legal = false;
  int query_offset = 0;        // block_m heads in panels of 64 columns
  int probability_offset = 0;  // a head's 64 keys in a row of 128 bytes
  int row_offset = 0;          // two values for each of the computing warps and each head
  int barrier_offset = 0;      // mbarriers
  int work_offset = 0;         // the slots of the work queue
  int owners_offset = 0;       // u8[stages][block_n]: 1, or 0 for an empty slot
  int bytes = 0;
};

constexpr WgmmaKeysLayout wgmma_keys_layout(int d_qk, const Tile& tile) {
  WgmmaKeysLayout layout;
  layout.query_offset = tile.stages * tile.block_n * d_qk * 2;
  layout.probability_offset = layout.query_offset + tile.block_m * d_qk * 2;
  layout.row_offset = layout.probability_offset + tile.block_m * tile.block_n * 2;
  layout.barrier_offset = layout.row_offset + 2 * (wgmma_keys_warps / 2) * tile.block_m * 4;
  layout.work_offset = layout.barrier_offset + 2 * (tile.stages + wgmma_work_slots) * 8;
  layout.owners_offset = layout.work_offset + wgmma_work_slots * wgmma_item_bytes;
  layout.bytes = layout.owners_offset + tile.stages * tile.block_n;
  layout.legal = (tile.block_m == 8 || tile.block_m == 16 || tile.block_m == 32) && tile.block_n == wgmma_keys_block_n &&
                 tile.warps == wgmma_keys_warps && target_capability == 90 && layout.bytes <= wgmma_keys_most_bytes;
  return layout;
}

}  // namespace kw::mla
