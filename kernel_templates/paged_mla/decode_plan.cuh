// paged_mla/decode: the plan. mla/tile_layout.cuh and mla/wgmma_layout.cuh have what stands in shared memory and what the tile axes mean.
//
// Rows of a request are token · heads + head, cut into row tiles of block_m. Blocks are persistent: blockIdx.x = share · row_tiles + row
// tile, so that the blocks that read the same keys run side by side, and the second finds them in the L2 cache.
#pragma once

#include "common/types.cuh"
#include "kernwright/specialisation.cuh"
#include "mla/tile_layout.cuh"
#include "mla/wgmma_keys_layout.cuh"
#include "mla/wgmma_layout.cuh"
#include "paged_mla/decode_params.cuh"

namespace kw::paged_mla {

constexpr int rows_of(const Specialisation& specialisation) {
  return specialisation.heads * specialisation.query_tokens;
}

/// Shared memory of a multiprocessor, KiB (CUDA C++ programming guide, "Technical specifications per compute capability"); a block takes 1
/// KiB beside its own.
constexpr int multiprocessor_kib(int capability) {
  if (capability == 80) return 164;
  if (capability == 86 || capability == 89 || capability >= 120) return 100;
  return 228;
}

/// Behind the attention's layout: where a block is in its share.
constexpr int block_bytes(const mla::TileLayout& layout) {
  constexpr int share_bytes = 32;
  return layout.bytes + share_bytes;
}

/// As many as the memory holds: key tiles under way cover the memory's latency. Up to 64 rows in all, which bounds the partial results, and
/// 384 threads: 170 registers each, with which no tile of the fall-back order spills.
constexpr int resident_blocks(const Tile& tile, const mla::TileLayout& layout) {
  constexpr int threads = 384;
  const int held = multiprocessor_kib(target_capability) * 1024 / (block_bytes(layout) + 1024);
  return maximum(1, minimum(held, minimum(largest_tile_rows / tile.block_m, threads / layout.threads)));
}

}  // namespace kw::paged_mla

namespace kw {

constexpr Plan make_plan(const Specialisation& specialisation, const Tile& tile) {
  Plan plan;
  plan.params_bytes = static_cast<int>(sizeof(paged_mla::DecodeParams));
  plan.rows_per_block = tile.block_m;
  plan.programmatic_launch = target_capability >= 90 ? 1 : 0;  // its blocks stand ready by the time that the kernel in front has ended
  const int rows = paged_mla::rows_of(specialisation);
  if (tile.variant == Variant::wgmma_keys) {
    const mla::WgmmaKeysLayout layout = mla::wgmma_keys_layout(specialisation.d_qk, tile);
    const int fewest_rows = rows <= 8 ? 8 : rows <= 16 ? 16 : 32;
    if (!layout.legal || specialisation.query_tokens != 1 || rows > 32 || tile.block_m != fewest_rows) return plan;
    plan.threads = tile.warps * 32;
    plan.dynamic_shared = layout.bytes;
    plan.blocks_per_sm = 1;
    return plan;
  }
  // A tile half of which could only ever be padding is not offered.
  if ((tile.block_m != 16 && tile.block_m >= 2 * rows) || tile.block_m > paged_mla::largest_tile_rows) return plan;
  if (tile.variant == Variant::wgmma) {
    const mla::WgmmaLayout layout = mla::wgmma_layout(specialisation.d_qk, tile);
    if (!layout.legal) return plan;
    plan.threads = tile.warps * 32;
    plan.dynamic_shared = layout.bytes;
    plan.blocks_per_sm = 1;
    return plan;
  }
  const mla::TileLayout layout = mla::tile_layout(specialisation.d_qk, tile);
  if (!layout.legal) return plan;
  plan.threads = layout.threads;
  plan.dynamic_shared = paged_mla::block_bytes(layout);
  plan.blocks_per_sm = paged_mla::resident_blocks(tile, layout);
  return plan;
}

}  // namespace kw
