// MLA attention of block_m rows of Q over tiles of block_n keys: what a block of the portable and mma variants keeps in shared memory.
//
// Tile axes: block_m rows (a row is one head of one token), block_n keys a step, stages key tiles in flight, warps a block.
//
//   query_offset        block_m rows of Q; the output on the way out
//   key_offset          stages × block_n keys
//   probability_offset  P: block_m rows of bf16 (mma), or block_n columns of fp32 (portable)
//   owners_offset       u32[stages][block_n]: bit i says that token i of the block attends to the key; 0: an empty slot
//   row_offset          row_values × block_m floats, see the kernels
#pragma once

#include "common/types.cuh"
#include "kernwright/specialisation.cuh"
#include "mla/dimensions.cuh"

namespace kw::mla {

struct TileLayout {
  bool legal = false;
  int threads = 0;
  int warps_m = 0;            // mma: warps along the rows, 16 rows each
  int warps_n = 0;            // mma: warps along the keys of QKᵀ and along the columns of PV
  int row_bytes = 0;          // of a row of Q or of a key in shared memory
  int chunks = 0;             // 16-byte pieces of a row: d_qk / 8
  int probability_bytes = 0;  // of a row of P (portable: of a key's column of P) in shared memory
  int query_offset = 0;
  int key_offset = 0;
  int probability_offset = 0;
  int owners_offset = 0;
  int row_offset = 0;
  int bytes = 0;
};

/// Of the variants portable and mma.
constexpr TileLayout tile_layout(int d_qk, const Tile& tile) {
  const bool portable = tile.variant == Variant::portable;
  TileLayout layout;
  layout.threads = tile.warps * 32;
  layout.chunks = d_qk / 8;
  // fp32 outputs that a thread holds in registers; more than 128 would spill (portable: 64, its rows are held whole).
  const int outputs_a_thread = tile.block_m * d_v / layout.threads;
  int row_values = 0;
  if (portable) {
    layout.legal = outputs_a_thread <= 64 && tile.stages == 1;
    layout.row_bytes = d_qk * 2 + 16;  // an odd number of 16-byte pieces: neighbouring keys in different banks
    layout.probability_bytes = tile.block_m * 4;
    row_values = 2;
  } else {
    layout.warps_m = tile.block_m / 16;
    layout.warps_n = tile.warps / maximum(layout.warps_m, 1);
    layout.legal = layout.warps_m * layout.warps_n == tile.warps && outputs_a_thread <= 128;
    layout.row_bytes = d_qk * 2;  // a multiple of 128, swizzled
    layout.probability_bytes = tile.block_n * 2 + 16;
    row_values = layout.warps_n;
  }
  layout.key_offset = layout.query_offset + tile.block_m * layout.row_bytes;
  layout.probability_offset = layout.key_offset + tile.stages * tile.block_n * layout.row_bytes;
  layout.owners_offset = layout.probability_offset + (portable ? tile.block_n : tile.block_m) * layout.probability_bytes;
  layout.row_offset = layout.owners_offset + tile.stages * tile.block_n * 4;
  layout.bytes = layout.row_offset + row_values * tile.block_m * 4;
  return layout;
}

}  // namespace kw::mla
