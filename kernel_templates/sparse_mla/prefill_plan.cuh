// sparse_mla/prefill: the plan, the rows of a block, and where what stands in shared memory.
//
// Tile axes: block_m rows (a row is one head of one token), block_n keys a step, stages key tiles in flight, warps a block.
#pragma once

#include "common/types.cuh"
#include "kernwright/specialisation.cuh"
#include "mla/wgmma_keys_layout.cuh"
#include "mla/wgmma_layout.cuh"
#include "sparse_mla/prefill_params.cuh"

namespace kw::sparse_mla {

inline constexpr int d_v = 512;

struct PrefillLayout {
  bool legal = false;
  int threads = 0;
  // A block works on `heads_per_block` heads of the group_size tokens of one group: block_m = group_size · heads_per_block rows.
  int heads_per_block = 0;
  int head_tiles = 0;         // blocks a group
  int warps_m = 0;            // mma: warps along the rows, 16 rows each
  int warps_n = 0;            // mma: warps along the keys of QKᵀ and along the columns of PV
  int row_bytes = 0;          // of a row of Q or of a key in shared memory
  int chunks = 0;             // 16-byte pieces of a row: d_qk / 8
  int probability_bytes = 0;  // of a row of P (portable: of a key's column of P) in shared memory
  int query_offset = 0;       // block_m rows of Q; the output on the way out
  int key_offset = 0;         // stages × block_n keys
  int probability_offset = 0;
  int owners_offset = 0;  // u32[stages][block_n]: bit i says that token i of the group attends to the key; 0: an empty slot
  int row_offset = 0;     // float values a row, see the kernels
  int blocks_per_sm = 0;  // wgmma, wgmma_keys: persistent blocks
  int bytes = 0;
};

constexpr PrefillLayout prefill_layout(const Specialisation& specialisation, const Tile& tile) {
  if (tile.variant == Variant::wgmma_keys) {
    const int fewest_rows = specialisation.heads <= 8 ? 8 : specialisation.heads <= 16 ? 16 : 32;
    const mla::WgmmaKeysLayout shared = mla::wgmma_keys_layout(specialisation.d_qk, tile);
    PrefillLayout layout;
    layout.legal = shared.legal && specialisation.group_size == 1 && tile.block_m == fewest_rows;
    layout.threads = tile.warps * 32;
    layout.heads_per_block = tile.block_m;
    layout.head_tiles = ceil_div(specialisation.heads, layout.heads_per_block);
    layout.blocks_per_sm = 1;
    layout.bytes = shared.bytes;
    return layout;
  }
  const bool portable = tile.variant == Variant::portable;
  const int rows = specialisation.heads * specialisation.group_size;
  PrefillLayout layout;
  layout.threads = tile.warps * 32;
  layout.chunks = specialisation.d_qk / 8;
  // A tile half of which could only ever be padding is not offered, nor one that cannot hold a head of every token of the group.
  const bool rows_fit = tile.block_m >= specialisation.group_size && (tile.block_m == 16 || tile.block_m < 2 * rows);
  if (!rows_fit) return layout;
  layout.heads_per_block = tile.block_m / specialisation.group_size;
  layout.head_tiles = ceil_div(specialisation.heads, layout.heads_per_block);

  if (tile.variant == Variant::wgmma) {
    const mla::WgmmaLayout shared = mla::wgmma_layout(specialisation.d_qk, tile);
    layout.legal = shared.legal;
    layout.blocks_per_sm = 1;
    layout.bytes = shared.bytes;
    return layout;
  }

  // fp32 outputs that a thread holds in registers; more than 128 would spill (portable: 64, its rows are held whole).
  const int outputs_a_thread = tile.block_m * d_v / layout.threads;
  int row_values = 0;
  if (portable) {
    layout.legal = outputs_a_thread <= 64 && tile.stages == 1;
    layout.row_bytes = specialisation.d_qk * 2 + 16;  // an odd number of 16-byte pieces: neighbouring keys in different banks
    layout.probability_bytes = tile.block_m * 4;
    row_values = 2;
  } else {
    layout.warps_m = tile.block_m / 16;
    layout.warps_n = tile.warps / maximum(layout.warps_m, 1);
    layout.legal = layout.warps_m * layout.warps_n == tile.warps && outputs_a_thread <= 128;
    layout.row_bytes = specialisation.d_qk * 2;  // a multiple of 128, swizzled
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
