// The union of the rows that the tokens of a group select: each distinct valid position once, ascending, with an ownership mask.
//
// Nothing is sorted. A mask for every position of a window stands in shared memory, so that the group's indices are read once:
//
//   1. each selected position ors its token's bit into its mask
//   2. the masks that are not zero are written out, in order: each warp counts those of its stretch, then knows where they go
//
// A mask is a byte for up to 8 tokens, two for 16. A group whose positions span more than a window goes on with the window that begins at
// its smallest position not done yet. The result depends on nothing but the group's indices.
#include "common/barrier.cuh"
#include "common/bits.cuh"
#include "common/dependent_launch.cuh"
#include "common/shared_memory.cuh"
#include "common/types.cuh"
#include "common/warp.cuh"
#include "kernwright/specialisation.cuh"
#include "sparse_mla/union_build_plan.cuh"
// Behind the plan.
#include "sparse_mla/union_build_indices.cuh"

namespace kw::sparse_mla {

/// The lowest bit of each mask of the word that is not zero.
KW_INLINE u32 owned_masks(u32 word) {
  u32 any = word | word >> 1;
  any |= any >> 2;
  any |= any >> 4;
  if constexpr (layout.mask_bytes == 2) any |= any >> 8;
  return any & (layout.mask_bytes == 1 ? 0x01010101u : 0x00010001u);
}

/// Writes the positions of words [first, last) of the map that are owned, and their masks, from `at` on. By a whole warp.
KW_INLINE void write_rows(const u32* map, u32 first, u32 last, u32 start, i64 at, int* rows_out, u8* masks_out) {
  const u32 lanes_below = (1u << lane_id()) - 1;
  for (u32 base = first; base < last; base += 32) {
    const u32 index = base + static_cast<u32>(lane_id());
    const u32 word = index < last ? map[index] : 0;
    const u32 owned = owned_masks(word);
    u32 before = 0;
    u32 all = 0;
    KW_UNROLL
    for (int i = 0; i < masks_a_word; ++i) {
      const u32 lanes = ballot((owned >> (i * mask_bits) & 1u) != 0);
      before += static_cast<u32>(popcount(lanes & lanes_below));
      all += static_cast<u32>(popcount(lanes));
    }
    i64 to = at + before;
    KW_UNROLL
    for (int i = 0; i < masks_a_word; ++i) {
      if ((owned >> (i * mask_bits) & 1u) == 0) continue;
      rows_out[to] = static_cast<int>(start + index * masks_a_word + static_cast<u32>(i));
      const u32 mask = word >> (i * mask_bits) & ((u32{1} << (mask_bits - 1)) * 2 - 1);
      if constexpr (layout.mask_bytes == 1) {
        masks_out[to] = static_cast<u8>(mask);
      } else {
        reinterpret_cast<u16*>(masks_out)[to] = static_cast<u16>(mask);
      }
      ++to;
    }
    at += all;
  }
}

}  // namespace kw::sparse_mla

extern "C" __global__ void __launch_bounds__(kw::sparse_mla::layout.threads)
    kw_sparse_mla_union_build(const __grid_constant__ kw::sparse_mla::UnionBuildParams params) {
  using namespace kw;
  using namespace kw::sparse_mla;
  if (params.tokens == 0) return;
  launch_dependents();

  unsigned char* shared = dynamic_shared();
  u32* map = reinterpret_cast<u32*>(shared + layout.masks_offset);
  u32* scratch = reinterpret_cast<u32*>(shared + layout.scratch_offset);

  const GroupIndices group = group_indices(params);
  const i64 output = static_cast<i64>(blockIdx.x) * params.capacity;
  int* rows_out = params.union_rows + output;
  u8* masks_out = static_cast<u8*>(params.union_masks) + output * layout.mask_bytes;
  const ReadPositions positions{group};
  const PositionRange range = position_range(group, positions, scratch);

  u32 total = 0;
  for (u32 start = range.start; start != no_position;) {
    const u32 span = minimum(static_cast<u32>(layout.window), range.end - start);
    const u32 words = ceil_div(span, static_cast<u32>(masks_a_word));
    clear(map, round_up(words, 4u) * 4);
    block_sync();
    u32 next = no_position;
    mark_positions<masks_a_word>(positions, map, start, span, next, [](u32 token, u32 place) { return place * mask_bits + token; });
    block_sync();

    const u32 stretch = round_up(ceil_div(words, static_cast<u32>(tile.warps)), 32u);
    const u32 first = minimum(words, static_cast<u32>(warp_id()) * stretch);
    const u32 last = minimum(words, first + stretch);
    u32 owned = 0;
    for (u32 index = first + static_cast<u32>(lane_id()); index < last; index += 32) {
      owned += static_cast<u32>(popcount(owned_masks(map[index])));
    }
    owned = reduce_lanes<32>(owned, [](u32 a, u32 b) { return a + b; });
    if (lane_id() == 0) scratch[warp_id()] = owned;
    block_sync();
    u32 before = total;
    for (int warp = 0; warp < tile.warps; ++warp) {
      if (warp < warp_id()) before += scratch[warp];
      total += scratch[warp];
    }
    write_rows(map, first, last, start, before, rows_out, masks_out);
    block_sync();
    start = next_window(group, next, scratch);
  }
  finish_group(params, total);
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
