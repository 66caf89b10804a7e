// The union of the rows that the tokens of a group select, as union_build.cu builds it, for positions that are spread far: one bit a
// position in place of a mask, so that a window of a million positions fits.
//
// Nothing is sorted. A window of positions is a presence bitmap in shared memory; a prefix sum of population counts gives every present
// position its rank in the union, which is where it is written and where its mask is collected:
//
//   1. each selected position of the window sets its bit
//   2. rank[w] = set bits in front of word w, for every 64-bit word
//   3. each set bit writes its position to union_rows[rank]
//   4. each selected position ors its token's bit into masks[rank]
//
// A group whose positions span more than a window goes on with the window that begins at its smallest position not done yet, so that
// stretches that nobody selects cost nothing. Where a window holds more rows than masks fit at once, step 4 repeats for each chunk of
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
#include "sparse_mla/union_build_indices.cuh"

namespace kw::sparse_mla {

KW_INLINE u64 presence_word(const u32* presence, u32 word) {
  const Vec8 halves = load_vector<Vec8>(presence + 2 * word);
  return static_cast<u64>(halves.word[1]) << 32 | halves.word[0];
}

/// rank[w] = set bits in front of the 64-bit word w, for `words` words; returns all set bits. Each thread counts 256 bits at a time.
KW_INLINE u32 rank_words(const u32* presence, u32* rank, u32 words, u32* scratch) {
  constexpr u32 words_a_thread = 4;
  u32 total = 0;
  for (u32 base = 0; base < words; base += layout.threads * words_a_thread) {
    const u32 first = base + threadIdx.x * words_a_thread;
    u32 counts[words_a_thread];
    u32 sum = 0;
    KW_UNROLL
    for (u32 i = 0; i < words_a_thread; ++i) {
      counts[i] = first + i < words ? static_cast<u32>(popcount(presence_word(presence, first + i))) : 0;
      sum += counts[i];
    }
    const u32 through = inclusive_sum(sum);
    if (lane_id() == 31) scratch[warp_id()] = through;
    block_sync();
    u32 before = total + through - sum;
    for (int warp = 0; warp < tile.warps; ++warp) {
      if (warp < warp_id()) before += scratch[warp];
      total += scratch[warp];
    }
    KW_UNROLL
    for (u32 i = 0; i < words_a_thread; ++i) {
      if (first + i < words) rank[first + i] = before;
      before += counts[i];
    }
    block_sync();
  }
  return total;
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
  u32* rank = reinterpret_cast<u32*>(shared + layout.rank_offset);
  u32* masks = reinterpret_cast<u32*>(shared + layout.masks_offset);
  u32* scratch = reinterpret_cast<u32*>(shared + layout.scratch_offset);

  const GroupIndices group = group_indices(params);
  const i64 output = static_cast<i64>(blockIdx.x) * params.capacity;
  int* rows_out = params.union_rows + output;
  u8* masks_out = static_cast<u8*>(params.union_masks) + output * layout.mask_bytes;

  const PositionRange range = position_range(group, scratch);
  u32 start = range.start;
  u32 total = 0;
  while (start != no_position) {
    const u32 span = minimum(static_cast<u32>(layout.window), range.end - start);
    const u32 words = ceil_div(span, 64u);
    clear(presence, round_up(words, 2u) * 8);
    block_sync();

    u32 next = no_position;
    mark_positions<32>(group, presence, start, span, next, [](u32, u32 place) { return place; });
    block_sync();
    const u32 rows = rank_words(presence, rank, words, scratch);

    for (u32 half = threadIdx.x; half < words * 2; half += layout.threads) {
      u32 bits = presence[half];
      u32 at = total + rank[half / 2] + (half % 2 == 0 ? 0 : static_cast<u32>(popcount(presence[half - 1])));
      for (; bits != 0; bits &= bits - 1) rows_out[at++] = static_cast<int>(start + half * 32 + static_cast<u32>(lowest_bit(bits)));
    }

    for (u32 chunk = 0; chunk < rows; chunk += layout.mask_rows) {
      const u32 chunk_rows = minimum(static_cast<u32>(layout.mask_rows), rows - chunk);
      clear(masks, round_up(chunk_rows * layout.mask_bytes, 16u));
      block_sync();
      visit_positions(group, [&](int token, const u32(&positions)[4]) {
        KW_UNROLL
        for (int i = 0; i < 4; ++i) {
          if (positions[i] == no_position || positions[i] < start || positions[i] - start >= span) continue;
          const u32 offset = positions[i] - start;
          const u64 before = presence_word(presence, offset / 64) & ((u64{1} << (offset % 64)) - 1);
          const u32 row = rank[offset / 64] + static_cast<u32>(popcount(before)) - chunk;  // wraps below the chunk
          if (row >= chunk_rows) continue;
          const u32 shift = row % masks_a_word * (32 / masks_a_word) + static_cast<u32>(token);
          atomic_or_shared(&masks[row / masks_a_word], 1u << shift);
        }
      });
      block_sync();
      for (u32 row = threadIdx.x; row < chunk_rows; row += layout.threads) {
        const u32 mask = masks[row / masks_a_word] >> (row % masks_a_word * (32 / masks_a_word));
        const i64 at = static_cast<i64>(total) + chunk + row;
        if constexpr (layout.mask_bytes == 1) {
          masks_out[at] = static_cast<u8>(mask & 0xFFu);
        } else {
          reinterpret_cast<u16*>(masks_out)[at] = static_cast<u16>(mask & 0xFFFFu);
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
