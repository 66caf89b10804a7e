// sparse_mla/union_build_wide: the plan, and where what stands in shared memory.
//
// Tile axes: block_m is the number of union rows whose masks are in shared memory at once, block_n the number of positions in one window,
// both in units of 1,024.
#pragma once

#include "common/types.cuh"
#include "kernwright/specialisation.cuh"
#include "sparse_mla/union_build_params.cuh"

namespace kw::sparse_mla {

struct UnionBuildLayout {
  bool legal = false;
  int threads = 0;
  int window = 0;           // positions; a multiple of 1,024
  int mask_bytes = 0;       // of one row: 1 for up to 8 tokens, 2 for 16
  int mask_rows = 0;        // rows whose masks fit at once
  int presence_offset = 0;  // u32[window / 32]: bit i of word w is position 32·w + i of the window
  int rank_offset = 0;      // u16[window / 32]: set bits of a warp's stretch in front of each word
  int masks_offset = 0;     // mask_rows masks, packed into u32
  int scratch_offset = 0;   // u32[2][32]: two values a warp
  int bytes = 0;
};

constexpr UnionBuildLayout union_build_layout(const Specialisation& specialisation, const Tile& tile) {
  UnionBuildLayout layout;
  layout.threads = tile.warps * 32;
  layout.window = tile.block_n * 1024;
  layout.mask_bytes = ceil_div(specialisation.group_size, 8);
  layout.mask_rows = tile.block_m * 1024;
  layout.rank_offset = layout.presence_offset + layout.window / 8;
  layout.masks_offset = layout.rank_offset + layout.window / 32 * 2;
  layout.scratch_offset = layout.masks_offset + layout.mask_rows * layout.mask_bytes;
  layout.bytes = layout.scratch_offset + 2 * 32 * 4;
  constexpr int largest_stretch = 65'536;  // positions: so many, less those of one word, are the most that a rank of 16 bits counts
  const bool ranks_fit = layout.window <= tile.warps * largest_stretch;
  layout.legal = layout.threads <= 1024 && layout.threads % specialisation.group_size == 0 && ranks_fit;
  return layout;
}

}  // namespace kw::sparse_mla

namespace kw {

/// One block a group, hence rows_per_block 1.
constexpr Plan make_plan(const Specialisation& specialisation, const Tile& tile) {
  const sparse_mla::UnionBuildLayout layout = sparse_mla::union_build_layout(specialisation, tile);
  Plan plan;
  plan.params_bytes = static_cast<int>(sizeof(sparse_mla::UnionBuildParams));
  if (!layout.legal) return plan;
  plan.threads = layout.threads;
  plan.dynamic_shared = layout.bytes;
  plan.rows_per_block = 1;
  return plan;
}

}  // namespace kw
