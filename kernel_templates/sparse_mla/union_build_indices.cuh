// What the two ways of building a union share: where a group's positions are, and how they are read. Behind the plan of one of them.
#pragma once

#include "common/atomics.cuh"
#include "common/block_reduce.cuh"
#include "common/shared_memory.cuh"
#include "common/types.cuh"
#include "kernwright/specialisation.cuh"
#include "sparse_mla/union_build_params.cuh"

namespace kw::sparse_mla {

constexpr UnionBuildLayout layout = union_build_layout(specialisation, tile);
constexpr int group_size = specialisation.group_size;
constexpr u32 no_position = 0xFFFFFFFFu;
constexpr int masks_a_word = 4 / layout.mask_bytes;  // of 32 bits
constexpr int mask_bits = 32 / masks_a_word;

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

/// A group's positions, read from `indices` at every visit.
struct ReadPositions {
  const GroupIndices& group;

  /// Calls visit(token, positions) until every valid slot of the group was given once: four neighbouring slots at a time, no_position in
  /// place of empty ones. Each token's row is shared out among threads / group_size threads.
  template <class Visit>
  KW_INLINE void visit(Visit visit) const {
    constexpr int threads_a_token = layout.threads / group_size;
    const int token = static_cast<int>(threadIdx.x) / threads_a_token;
    const int lane = static_cast<int>(threadIdx.x) % threads_a_token;
    if (token >= group.tokens) return;
    const int* row = group.first_row + static_cast<i64>(token) * group.topk;
    const int length = group.lengths == nullptr ? group.topk : maximum(0, minimum(group.lengths[token], group.topk));
    if (group.quads) {
      // Several reads are on their way before the first is used: one at a time, their latency is what a small launch takes.
      constexpr int batch = 8;
      constexpr int stride = threads_a_token * 4;
      for (int first = lane * 4; first < length; first += stride * batch) {
        Vec16 quads[batch];
        KW_UNROLL
        for (int b = 0; b < batch; ++b) quads[b] = first + b * stride < length ? load_vector<Vec16>(row + first + b * stride) : Vec16{};
        KW_UNROLL
        for (int b = 0; b < batch; ++b) {
          const int slot = first + b * stride;
          u32 positions[4];
          KW_UNROLL
          for (int i = 0; i < 4; ++i) positions[i] = slot + i < length && quads[b].word[i] < group.limit ? quads[b].word[i] : no_position;
          visit(token, positions);
        }
      }
    } else {
      for (int slot = lane; slot < length; slot += threads_a_token) {
        const u32 position = static_cast<u32>(row[slot]);
        const u32 positions[4] = {position < group.limit ? position : no_position, no_position, no_position, no_position};
        visit(token, positions);
      }
    }
  }
};

/// The stretch that a group's positions lie in: all that there are where they fit a window, else from the group's smallest to its largest.
struct PositionRange {
  u32 start;  // no_position: there is none
  u32 end;    // one past the last
};

template <class Positions>
KW_INLINE PositionRange position_range(const GroupIndices& group, const Positions& all, u32* scratch) {
  if (group.limit == 0) return {no_position, 0};
  if (group.limit <= static_cast<u32>(layout.window)) return {0, group.limit};
  u32 first = no_position;
  u32 past = 0;
  all.visit([&](int, const u32(&positions)[4]) {
    KW_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (positions[i] == no_position) continue;
      first = minimum(first, positions[i]);
      past = maximum(past, positions[i] + 1);
    }
  });
  return {reduce_block<tile.warps>(first, scratch, [](u32 a, u32 b) { return minimum(a, b); }),
          reduce_block<tile.warps>(past, scratch, [](u32 a, u32 b) { return maximum(a, b); })};
}

/// Where the window behind [start, start + window) begins: `next` is this thread's smallest position past it.
KW_INLINE u32 next_window(const GroupIndices& group, u32 next, u32* scratch) {
  if (group.limit <= static_cast<u32>(layout.window)) return no_position;
  return reduce_block<tile.warps>(next, scratch, [](u32 a, u32 b) { return minimum(a, b); });
}

/// Ors bits into the words of a window that begins at `start`, `positions_a_word` positions each: bit_of(token, place in the word) for each
/// selected position of it. `next` becomes this thread's smallest position past the window, where there is one.
template <u32 positions_a_word, class Positions, class BitOf>
KW_INLINE void mark_positions(const Positions& all, u32* words, u32 start, u32 span, u32& next, BitOf bit_of) {
  all.visit([&](int token, const u32(&positions)[4]) {
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
      if (offset / positions_a_word != word) {
        if (bits != 0) atomic_or_shared(&words[word], bits);
        word = offset / positions_a_word;
        bits = 0;
      }
      bits |= 1u << bit_of(static_cast<u32>(token), offset % positions_a_word);
    }
    if (bits != 0) atomic_or_shared(&words[word], bits);
  });
}

KW_INLINE void clear(void* shared, u32 bytes) {
  unsigned char* to = static_cast<unsigned char*>(shared);
  for (u32 offset = threadIdx.x * 16; offset < bytes; offset += layout.threads * 16) store_vector(to + offset, Vec16{});
}

/// What the attention kernel behind it starts from.
KW_INLINE void finish_group(const UnionBuildParams& params, u32 rows) {
  if (threadIdx.x != 0) return;
  params.union_counts[blockIdx.x] = static_cast<int>(rows);
  if (blockIdx.x == 0) *params.next_work = 0;
}

}  // namespace kw::sparse_mla
