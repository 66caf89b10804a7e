// The union of the rows that the tokens of a group select: each distinct valid position once, ascending, with an ownership mask.
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
#include "common/block_reduce.cuh"
#include "common/shared_memory.cuh"
#include "common/types.cuh"
#include "common/warp.cuh"
#include "kernwright/specialisation.cuh"
#include "sparse_mla/union_build_plan.cuh"

namespace kw::sparse_mla {

constexpr UnionBuildLayout layout = union_build_layout(specialisation, tile);
constexpr int group_size = specialisation.group_size;
constexpr u32 no_position = 0xFFFFFFFFu;
constexpr int masks_a_word = 4 / layout.mask_bytes;

/// One group's rows of `indices`.
struct GroupIndices {
  const int* first_row;
  const int* lengths;  // of the group's tokens, or null
  int tokens;          // fewer than group_size in the last group
  int topk;
  u32 limit;   // positions at or above it are empty slots; so are negative ones, which are above it when read as unsigned
  bool quads;  // every row can be read 16 bytes at a time
};

KW_INLINE GroupIndices group_indices(const UnionBuildParams& params) {
  const i64 first_token = static_cast<i64>(blockIdx.x) * group_size;
  GroupIndices group;
  group.first_row = params.indices + first_token * params.topk;
  group.lengths = params.topk_length == nullptr ? nullptr : params.topk_length + first_token;
  group.tokens = static_cast<int>(minimum<i64>(group_size, params.tokens - first_token));
  group.topk = params.topk;
  group.limit = static_cast<u32>(minimum<i64>(params.kv_rows, i64{1} << 31));
  group.quads = params.topk % 4 == 0 && reinterpret_cast<u64>(params.indices) % 16 == 0;
  return group;
}

/// Calls visit(token, positions) until every valid slot of the group was given once: four neighbouring slots at a time, no_position in
/// place of empty ones. Each token's row is shared out among threads / group_size threads.
template <class Visit>
KW_INLINE void visit_positions(const GroupIndices& group, Visit visit) {
  constexpr int threads_a_token = layout.threads / group_size;
  const int token = static_cast<int>(threadIdx.x) / threads_a_token;
  const int lane = static_cast<int>(threadIdx.x) % threads_a_token;
  if (token >= group.tokens) return;
  const int* row = group.first_row + static_cast<i64>(token) * group.topk;
  const int length = group.lengths == nullptr ? group.topk : maximum(0, minimum(group.lengths[token], group.topk));
  if (group.quads) {
    for (int slot = lane * 4; slot < length; slot += threads_a_token * 4) {
      const Vec16 quad = load_vector<Vec16>(row + slot);
      u32 positions[4];
      KW_UNROLL
      for (int i = 0; i < 4; ++i) positions[i] = slot + i < length && quad.word[i] < group.limit ? quad.word[i] : no_position;
      visit(token, positions);
    }
  } else {
    for (int slot = lane; slot < length; slot += threads_a_token) {
      const u32 position = static_cast<u32>(row[slot]);
      const u32 positions[4] = {position < group.limit ? position : no_position, no_position, no_position, no_position};
      visit(token, positions);
    }
  }
}

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

KW_INLINE void clear(void* shared, u32 bytes) {
  unsigned char* to = static_cast<unsigned char*>(shared);
  for (u32 offset = threadIdx.x * 16; offset < bytes; offset += layout.threads * 16) store_vector(to + offset, Vec16{});
}

}  // namespace kw::sparse_mla

extern "C" __global__ void __launch_bounds__(kw::sparse_mla::layout.threads)
    kw_sparse_mla_union_build(const __grid_constant__ kw::sparse_mla::UnionBuildParams params) {
  using namespace kw;
  using namespace kw::sparse_mla;
  if (params.tokens == 0) return;

  unsigned char* shared = dynamic_shared();
  u32* presence = reinterpret_cast<u32*>(shared + layout.presence_offset);
  u32* rank = reinterpret_cast<u32*>(shared + layout.rank_offset);
  u32* masks = reinterpret_cast<u32*>(shared + layout.masks_offset);
  u32* scratch = reinterpret_cast<u32*>(shared + layout.scratch_offset);

  const GroupIndices group = group_indices(params);
  const i64 output = static_cast<i64>(blockIdx.x) * params.capacity;
  int* rows_out = params.union_rows + output;
  u8* masks_out = static_cast<u8*>(params.union_masks) + output * layout.mask_bytes;
  const auto smaller = [](u32 a, u32 b) { return minimum(a, b); };
  const auto larger = [](u32 a, u32 b) { return maximum(a, b); };

  u32 start = group.limit == 0 ? no_position : 0;
  u32 end = group.limit;  // one past the group's last position
  if (group.limit > static_cast<u32>(layout.window)) {
    u32 first = no_position;
    u32 past = 0;
    visit_positions(group, [&](int, const u32(&positions)[4]) {
      KW_UNROLL
      for (int i = 0; i < 4; ++i) {
        if (positions[i] == no_position) continue;
        first = minimum(first, positions[i]);
        past = maximum(past, positions[i] + 1);
      }
    });
    start = reduce_block<tile.warps>(first, scratch, smaller);
    end = reduce_block<tile.warps>(past, scratch, larger);
  }

  u32 total = 0;
  while (start != no_position) {
    const u32 span = minimum(static_cast<u32>(layout.window), end - start);
    const u32 words = ceil_div(span, 64u);
    clear(presence, round_up(words, 2u) * 8);
    block_sync();

    u32 next = no_position;
    visit_positions(group, [&](int, const u32(&positions)[4]) {
      // Neighbouring slots often fall into one word: collect before the atomic.
      u32 word = no_position;
      u32 bits = 0;
      KW_UNROLL
      for (int i = 0; i < 4; ++i) {
        if (positions[i] == no_position || positions[i] < start) continue;
        const u32 offset = positions[i] - start;
        if (offset >= span) {
          next = minimum(next, positions[i]);
          continue;
        }
        if (offset / 32 != word) {
          if (bits != 0) atomic_or_shared(&presence[word], bits);
          word = offset / 32;
          bits = 0;
        }
        bits |= 1u << (offset % 32);
      }
      if (bits != 0) atomic_or_shared(&presence[word], bits);
    });
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
    start = group.limit > static_cast<u32>(layout.window) ? reduce_block<tile.warps>(next, scratch, smaller) : no_position;
  }
  if (threadIdx.x == 0) params.union_counts[blockIdx.x] = static_cast<int>(total);
  if (blockIdx.x == 0 && threadIdx.x == 0) *params.next_work = 0;
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
