// The softmax where keys are rows of products: from a tile's products to P, 64 keys × the heads of the block.
//
// A thread's part of the 64 × N products, as wgmma leaves them: keys 16 · warp + lane / 4 and 8 below, and of each eight heads the two at
// 2 · (lane mod 4). Element i of a tile is key i / 2 mod 2 and the thread's head i / 4 · 2 + i mod 2.
#pragma once

#include "common/barrier.cuh"
#include "common/bf16.cuh"
#include "common/math.cuh"
#include "common/stmatrix.cuh"
#include "common/types.cuh"
#include "common/warp.cuh"
#include "mla/wgmma_keys_shared.cuh"

namespace kw::mla {

constexpr int elements = block_heads / 2;   // of a thread's part
constexpr int thread_heads = elements / 2;  // that a thread works on
using Tile64 = float[elements];             // 64 keys, or 64 columns of V, × the heads
using Output = Tile64[value_panels];        // Oᵀ

KW_INLINE constexpr int head_of(int element) {
  return element / 4 * 2 + element % 2;
}
/// The block's head that is a thread's h-th.
KW_INLINE int block_head(int h) {
  return h / 2 * 8 + lane_id() % 4 * 2 + h % 2;
}

/// Over the eight lanes that hold the same heads.
template <class Combine>
KW_INLINE float reduce_keys(float value, Combine combine) {
  KW_UNROLL
  for (int lanes = 4; lanes < 32; lanes *= 2) value = combine(value, shuffle_xor(value, lanes));
  return value;
}

/// The running softmax of a thread's heads. A score is kept relative to `reference`, a maximum of some time ago, which is the same in all
/// threads that hold the head; `largest` and `sum` are over the thread's own keys.
struct RunningHeads {
  float reference[thread_heads] = {};
  float limit[thread_heads];  // a score above it moves the reference: any, until the head has met a key
  float largest[thread_heads];
  float sum[thread_heads] = {};

  KW_INLINE RunningHeads() {
    KW_UNROLL
    for (int h = 0; h < thread_heads; ++h) limit[h] = largest[h] = -infinity;
  }
};

/// P of the thread's scores, rounded in pairs of heads, and its sums before rounding.
struct Probabilities {
  u32 packed[elements / 2];
  float sum[thread_heads];

  KW_INLINE void compute(const Tile64& scores) {
    KW_UNROLL
    for (int j = 0; j < elements; j += 4) {
      const float p[4] = {exp2_approx(scores[j]), exp2_approx(scores[j + 1]), exp2_approx(scores[j + 2]), exp2_approx(scores[j + 3])};
      packed[j / 2] = pack_bf16(p[0], p[1]);
      packed[j / 2 + 1] = pack_bf16(p[2], p[3]);
      sum[head_of(j)] = p[0] + p[2];
      sum[head_of(j + 1)] = p[1] + p[3];
    }
  }

  /// Into shared memory, a head's 64 keys in a row of 128 bytes: 16-byte piece c of row r at place c xor r mod 8.
  KW_INLINE void store(const Shared& shared, int warp) const {
    const int lane = lane_id();
    const u32 piece = static_cast<u32>(((warp * 2 + lane / 8 % 2) ^ (lane % 8)) * 16);
    if constexpr (block_heads == 8) {
      const u32 fragment[2] = {packed[0], packed[1]};
      stmatrix_x2_transposed(shared.probability() + static_cast<u32>(lane % 8 * 128) + piece, fragment);
    } else {
      KW_UNROLL
      for (int j = 0; j < elements / 2; j += 4) {
        const u32 fragment[4] = {packed[j], packed[j + 1], packed[j + 2], packed[j + 3]};
        stmatrix_x4_transposed(shared.probability() + static_cast<u32>((j * 4 + lane / 16 * 8 + lane % 8) * 128) + piece, fragment);
      }
    }
  }
};

/// The seldom part, met by the whole warpgroup: P is not what was computed, because a score is further above its reference than it may be,
/// or is not a number. Moves the references to the tile's maxima, which the four warps tell each other, and multiplies O accordingly.
KW_INLINE void move_references(const Shared& shared, const bool (&owned)[2], int warp, Tile64& scores, RunningHeads& running,
                               Output& output) {
  // Not a number: a product overflowed. That of an empty slot must leave no trace; -inf + inf would.
  KW_UNROLL
  for (int i = 0; i < elements; ++i) {
    if (!owned[i / 2 % 2]) scores[i] = -infinity;
  }
  KW_UNROLL
  for (int j = 0; j < elements; j += 4) {
    KW_UNROLL
    for (int e = 0; e < 2; ++e) {
      const float own = max_number(scores[j + e], scores[j + e + 2]);
      const float maximum_of_warp = reduce_keys(own, [](float a, float b) { return max_number(a, b); });
      if (lane_id() < 4) shared.maxima(warp)[block_head(head_of(j + e))] = maximum_of_warp;
    }
  }
  named_barrier_sync(computing_barrier, warpgroup);
  float factor[thread_heads];
  KW_UNROLL
  for (int h = 0; h < thread_heads; ++h) {
    float maximum_of_tile = -infinity;
    KW_UNROLL
    for (int w = 0; w < computing_warps; ++w) maximum_of_tile = max_number(maximum_of_tile, shared.maxima(w)[block_head(h)]);
    const bool moves = maximum_of_tile > running.limit[h];
    const float by = moves ? maximum_of_tile : 0.0f;
    factor[h] = !moves ? 1.0f : running.limit[h] == -infinity ? 0.0f : exp2_approx(-by);
    if (moves) running.limit[h] = rescale_threshold;
    running.reference[h] += by;
    running.sum[h] *= factor[h];
    KW_UNROLL
    for (int i = 0; i < elements; ++i) {
      if (head_of(i) == h) scores[i] -= by;
    }
  }
  KW_UNROLL
  for (int p = 0; p < value_panels; ++p) {
    KW_UNROLL
    for (int i = 0; i < elements; ++i) output[p][i] *= factor[head_of(i)];
  }
}

}  // namespace kw::mla
