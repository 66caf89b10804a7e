// The union of the rows that the tokens of a group select, as union_build.cu builds it, for positions that are spread far: one bit a
// position in place of a mask, so that a window of a million positions fits.
//
// Nothing is sorted. A window of positions is a presence bitmap in shared memory; a prefix sum of population counts gives every present
// position its rank in the union, which is where it is written and where its mask is collected:
//
//   1. each selected position of the window sets its bit
//   2. rank[w] = set bits in front of word w: each warp counts a stretch of words, then learns what the stretches in front of it have
//   3. each selected position ors its token's bit into masks[rank]; the one that finds the mask empty writes itself to union_rows[rank]
//
// Positions wait in registers from the first step to the last.
//
// A group whose positions span more than a window goes on with the window that begins at its smallest position not done yet, so that
// stretches that nobody selects cost nothing. Where a window holds more rows than masks fit at once, step 3 repeats for each chunk of
// ranks. Sets and ranks do not depend on the order in which threads run: the result depends on nothing but the group's indices.
#include "common/atomics.cuh"
#include "common/barrier.cuh"
#include "common/bits.cuh"
#include "common/dependent_launch.cuh"
#include "common/shared_memory.cuh"
#include "common/types.cuh"
#include "common/warp.cuh"
#include "kernwright/specialisation.cuh"
#include "sparse_mla/union_build_wide_plan.cuh"
// Behind the plan.
#include "sparse_mla/union_build_held.cuh"

namespace kw::sparse_mla {

constexpr u32 all_owners = (1u << (mask_bits - 1)) * 2 - 1;

/// A window's words are cut into stretches of `1 << shift`, a warp's each: as many as there are warps, or fewer.
KW_INLINE u32 stretch_shift(u32 words) {
  u32 shift = 7;  // a warp looks at 32 × 4 words at once
  while (static_cast<u32>(tile.warps) << shift < words) ++shift;
  return shift;
}

/// rank[w] = set bits in front of word w within its stretch, for words [first, last), by a whole warp; returns the stretch's set bits.
/// `last` is a multiple of 4.
KW_INLINE u32 rank_stretch(const u32* presence, u16* rank, u32 first, u32 last) {
  u32 before = 0;
  for (u32 base = first; base < last; base += 128) {
    const u32 word = base + static_cast<u32>(lane_id()) * 4;
    const Vec16 quad = word < last ? load_vector<Vec16>(presence + word) : Vec16{};
    u32 counts[4];
    KW_UNROLL
    for (int i = 0; i < 4; ++i) counts[i] = static_cast<u32>(popcount(quad.word[i]));
    const u32 sum = counts[0] + counts[1] + counts[2] + counts[3];
    const u32 through = inclusive_sum(sum);
    const u32 at = before + through - sum;
    const u32 third = at + counts[0] + counts[1];
    // None of these is 2^16: a stretch has at most as many positions, and the last word's are not in front of it.
    if (word < last) store_vector(rank + word, Vec8{{at | (at + counts[0]) << 16, third | (third + counts[2]) << 16}});
    before += shuffle(through, 31);
  }
  return before;
}

}  // namespace kw::sparse_mla

extern "C" __global__ void __launch_bounds__(kw::sparse_mla::layout.threads)
    kw_sparse_mla_union_build_wide(const __grid_constant__ kw::sparse_mla::UnionBuildParams params) {
  using namespace kw;
  using namespace kw::sparse_mla;
  if (params.tokens == 0) return;
  launch_dependents();

  unsigned char* shared = dynamic_shared();
  u32* presence = reinterpret_cast<u32*>(shared + layout.presence_offset);
  u16* rank = reinterpret_cast<u16*>(shared + layout.rank_offset);
  u32* masks = reinterpret_cast<u32*>(shared + layout.masks_offset);
  u32* scratch = reinterpret_cast<u32*>(shared + layout.scratch_offset);
  u32* stretch_begins = scratch + 32;  // rows of the window in front of each stretch

  const GroupIndices group = group_indices(params);
  const HeldPositions positions(group);
  const i64 output = static_cast<i64>(blockIdx.x) * params.capacity;
  int* rows_out = params.union_rows + output;
  u8* masks_out = static_cast<u8*>(params.union_masks) + output * layout.mask_bytes;

  const PositionRange range = position_range(group, positions, scratch);
  u32 start = range.start;
  u32 total = 0;
  while (start != no_position) {
    const u32 span = minimum(static_cast<u32>(layout.window), range.end - start);
    const u32 words = round_up(ceil_div(span, 32u), 4u);
    clear(presence, words * 4);
    block_sync();

    u32 next = no_position;
    mark_positions<32>(positions, presence, start, span, next, [](u32, u32 place) { return place; });
    block_sync();

    const u32 shift = stretch_shift(words);
    const u32 first = minimum(words, static_cast<u32>(warp_id()) << shift);
    const u32 last = minimum(words, first + (1u << shift));
    const u32 in_stretch = rank_stretch(presence, rank, first, last);
    if (lane_id() == 0) scratch[warp_id()] = in_stretch;
    block_sync();
    const u32 of_lane = lane_id() < tile.warps ? scratch[lane_id()] : 0;
    const u32 through = inclusive_sum(of_lane);
    const u32 rows = shuffle(through, 31);
    const u32 begins = shuffle(through - of_lane, warp_id());
    if (lane_id() == 0) stretch_begins[warp_id()] = begins;

    for (u32 chunk = 0; chunk < rows; chunk += layout.mask_rows) {
      const u32 chunk_rows = minimum(static_cast<u32>(layout.mask_rows), rows - chunk);
      clear(masks, round_up(chunk_rows * layout.mask_bytes, 16u));
      block_sync();
      positions.visit([&](int token, const u32(&quad)[4]) {
        KW_UNROLL
        for (int i = 0; i < 4; ++i) {
          if (quad[i] == no_position || quad[i] < start || quad[i] - start >= span) continue;
          const u32 offset = quad[i] - start;
          const u32 word = offset / 32;
          const u32 before = presence[word] & ((1u << offset % 32) - 1);
          const u32 row = stretch_begins[word >> shift] + rank[word] + static_cast<u32>(popcount(before)) - chunk;  // wraps below the chunk
          if (row >= chunk_rows) continue;
          const u32 place = row % masks_a_word * mask_bits;
          const u32 owners = atomic_fetch_or_shared(&masks[row / masks_a_word], 1u << (place + static_cast<u32>(token))) >> place;
          if ((owners & all_owners) == 0) rows_out[static_cast<i64>(total) + chunk + row] = static_cast<int>(quad[i]);
        }
      });
      block_sync();
      for (u32 row = threadIdx.x; row < chunk_rows; row += layout.threads) {
        const u32 mask = masks[row / masks_a_word] >> (row % masks_a_word * mask_bits);
        const i64 at = static_cast<i64>(total) + chunk + row;
        if constexpr (layout.mask_bytes == 1) {
          masks_out[at] = static_cast<u8>(mask & all_owners);
        } else {
          reinterpret_cast<u16*>(masks_out)[at] = static_cast<u16>(mask & all_owners);
        }
      }
      block_sync();
    }

    total += rows;
    start = next_window(group, next, scratch);
  }
  finish_group(params, total);
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
