// Attention of block_m rows over a list of keys on mma.sync tensor cores: bf16 products, fp32 accumulators.
//
// block_m rows of Q stay in shared memory; tiles of block_n keys come in by cp.async, `stages` of them in flight. V is the first 512
// columns of the same rows. The warps stand in a grid of warps_m × warps_n:
//
//                     keys 0 .. block_n                              columns 0 .. 512 of the output
//                   ┌────────┬────────┬──                          ┌─────────────┬─────────────┬──
//   rows 0 .. 15    │ warp 0 │ warp 1 │                            │ warp 0      │ warp 1      │
//                   ├────────┼────────┼──     S = Q Kᵀ             ├─────────────┼─────────────┼──     O += P V
//   rows 16 .. 31   │  w_n   │ w_n+1  │                            │  w_n        │ w_n+1       │
//                   └────────┴────────┴──                          └─────────────┴─────────────┴──
//
// The warps of a row of that grid exchange the maxima of their keys and their parts of P through shared memory, behind a named barrier of
// their own; the block as a whole meets once a tile (twice with one stage). The output stays in registers: 16 rows × 512 / warps_n columns
// a warp.
//
// Where the tile has fewer groups of eight keys than warps_n, the warps behind the last have no keys and take part in P V only.
//
// Which rows and which keys those are is the template's affair. Keys are described in mla/gather.cuh, rows r in [0, block_m) are
//
//   int token(int r) const                     which bit of a key's owners speaks for the row
//   bool padding(int r) const                  computed on zeros, never stored
//   const unsigned char* query(int r) const    of the row; for padding any address, which is not read
//   unsigned char* output(int r) const         of a row that is not padding
//   RowScale finish(int r, float reference, float sum, bool writes) const
//       what the row's sum of 2^(s − reference) makes of its output; writes its lse where `writes`, which one thread has for a row
#pragma once

#include "common/barrier.cuh"
#include "common/bf16.cuh"
#include "common/cp_async.cuh"
#include "common/ldmatrix.cuh"
#include "common/mma.cuh"
#include "common/shared_memory.cuh"
#include "common/warp.cuh"
#include "mla/gather.cuh"
#include "mla/softmax.cuh"

namespace kw::mla {

constexpr int block_m = tile.block_m;
constexpr int block_n = tile.block_n;
constexpr int stages = tile.stages;
constexpr int score_warps = minimum(layout.warps_n, block_n / 8);  // along the keys
constexpr int key_groups = block_n / 8 / score_warps;              // of eight keys, of one warp
constexpr int panels = layout.chunks / 8;                          // of 64 columns of Q and K, four mma steps each
constexpr int column_pairs = d_v / layout.warps_n / 16;            // of eight columns each, of one warp
static_assert(d_v / layout.warps_n % 64 == 0, "a warp's columns are whole swizzled panels");

/// Where lane `lane` points ldmatrix in swizzled rows (see mla/gather.cuh): `step` counts 32 bytes along a row, and the lanes of the
/// matrices to the right add 16 bytes each. Valid for rows whose number is lane mod 8 modulo 8.
KW_INLINE u32 swizzled_lane(int matrix_right) {
  return static_cast<u32>((matrix_right ^ (lane_id() % 8)) * 16);
}
KW_INLINE u32 swizzled_step(u32 lane_bytes, int step) {
  return static_cast<u32>(step / 4 * 128) + (lane_bytes ^ static_cast<u32>(step % 4 * 32));
}

struct WarpPlace {
  int m;     // row of the warp grid
  int n;     // column of the warp grid
  int row;   // this lane's first row of the block; its second is 8 below
  int pair;  // this lane holds columns 2 · pair and 2 · pair + 1 of every group of eight
};

KW_INLINE WarpPlace warp_place() {
  const int m = warp_id() / layout.warps_n;
  return {m, warp_id() % layout.warps_n, m * 16 + lane_id() / 4, lane_id() % 4};
}

/// The warps that share 16 rows meet.
KW_INLINE void row_sync(const WarpPlace& warp) {
  named_barrier_sync(1 + warp.m, layout.warps_n * 32);
}

/// S = Q Kᵀ of this warp's 16 rows and keys: scores[j] holds eight keys as an mma accumulator.
///
/// Each panel of 64 columns is summed by the tensor cores from zero and then added in fp32. A tensor core truncates where fp32 arithmetic
/// rounds, so that a chain of 36 steps is off by about 36 half units in the last place, all in one direction: 1e-4 in a logit of 150, which
/// is as much as lse may be off. Chains of four steps are off by a tenth of that, and several of them can run at once.
KW_INLINE void multiply_keys(const WarpPlace& warp, SharedAddress queries, SharedAddress keys, float (&scores)[key_groups][4]) {
  const int lane = lane_id();
  const SharedAddress query = queries + static_cast<u32>((warp.m * 16 + lane % 16) * layout.row_bytes);
  const u32 query_lane = swizzled_lane(lane / 16);
  // With one group of keys an ldmatrix brings eight keys × 32 columns, with more of them 16 keys × 16 columns.
  constexpr bool one_group = key_groups == 1;
  const int first_key = warp.n * key_groups * 8 + (one_group ? 0 : lane / 16 * 8) + lane % 8;
  const SharedAddress key = keys + static_cast<u32>(first_key * layout.row_bytes);
  const u32 key_lane = swizzled_lane(one_group ? lane / 8 : lane / 8 % 2);
  KW_UNROLL_BY(1)  // unrolled, the loads of several panels run ahead until the registers of 64-key tiles spill
  for (int panel = 0; panel < panels; ++panel) {
    float sum[key_groups][4] = {};
    u32 b[4];
    KW_UNROLL
    for (int step = panel * 4; step < panel * 4 + 4; ++step) {
      u32 a[4];
      ldmatrix_x4(a, query + swizzled_step(query_lane, step));
      if constexpr (one_group) {
        if (step % 2 == 0) ldmatrix_x4(b, key + swizzled_step(key_lane, step));
        const u32 b_half[2] = {b[step % 2 * 2], b[step % 2 * 2 + 1]};
        mma_m16n8k16_bf16(sum[0], a, b_half);
      } else {
        KW_UNROLL
        for (int j = 0; j < key_groups; j += 2) {
          ldmatrix_x4(b, key + static_cast<u32>(j * 8 * layout.row_bytes) + swizzled_step(key_lane, step));
          const u32 b_low[2] = {b[0], b[1]};
          const u32 b_high[2] = {b[2], b[3]};
          mma_m16n8k16_bf16(sum[j], a, b_low);
          mma_m16n8k16_bf16(sum[j + 1], a, b_high);
        }
      }
    }
    KW_UNROLL
    for (int j = 0; j < key_groups; ++j) {
      KW_UNROLL
      for (int e = 0; e < 4; ++e) scores[j][e] = panel == 0 ? sum[j][e] : scores[j][e] + sum[j][e];
    }
  }
}

/// O += P V of this warp's 16 rows and columns.
KW_INLINE void multiply_values(const WarpPlace& warp, SharedAddress probabilities, SharedAddress values,
                               float (&output)[2 * column_pairs][4]) {
  const int lane = lane_id();
  const SharedAddress probability = probabilities + static_cast<u32>((warp.m * 16 + lane % 16) * layout.probability_bytes + lane / 16 * 16);
  const SharedAddress value = values + static_cast<u32>(lane % 16 * layout.row_bytes + warp.n * column_pairs * 32);
  const u32 value_lane = swizzled_lane(lane / 16);
  KW_UNROLL
  for (int step = 0; step < block_n / 16; ++step) {
    u32 a[4];
    ldmatrix_x4(a, probability + static_cast<u32>(step * 32));
    KW_UNROLL
    for (int j = 0; j < column_pairs; ++j) {
      u32 b[4];
      ldmatrix_x4_transposed(b, value + static_cast<u32>(step * 16 * layout.row_bytes) + swizzled_step(value_lane, j));
      const u32 b_low[2] = {b[0], b[1]};
      const u32 b_high[2] = {b[2], b[3]};
      mma_m16n8k16_bf16(output[2 * j], a, b_low);
      mma_m16n8k16_bf16(output[2 * j + 1], a, b_high);
    }
  }
}

/// Where the parts of mla/tile_layout.cuh are.
struct SharedParts {
  SharedAddress queries;
  SharedAddress keys;
  unsigned char* probabilities;
  u32* owners;
  float* row_values;      // [warps_n][block_m]: maxima of a tile, at the end sums
  unsigned char* staged;  // the output on its way out, in the place of Q

  explicit KW_INLINE SharedParts(unsigned char* shared)
      : queries(shared_address(shared + layout.query_offset)),
        keys(shared_address(shared + layout.key_offset)),
        probabilities(shared + layout.probability_offset),
        owners(reinterpret_cast<u32*>(shared + layout.owners_offset)),
        row_values(reinterpret_cast<float*>(shared + layout.row_offset)),
        staged(shared + layout.query_offset) {}
};

/// What a thread holds of its two rows, `row` and `row` + 8 of its WarpPlace.
struct RunningRows {
  float output[2 * column_pairs][4] = {};
  float max_log2[2] = {initial_max, initial_max};
  float sum[2] = {};  // over this lane's keys; behind attend(), over all keys
};

/// Runs over all keys. Every thread of the block comes here, and none still reads the block's shared memory.
template <class Rows, class Keys>
KW_INLINE void attend(const Rows& rows, const Keys& list, float scale_log2, const WarpPlace& warp, const SharedParts& shared,
                      RunningRows& running) {
  const int tiles = ceil_div(list.count, block_n);
  const bool scores_keys = warp.n < score_warps;
  const int tokens[2] = {rows.token(warp.row), rows.token(warp.row + 8)};

  KeyCopy<Keys> copy(list, shared.keys, shared.owners);
  if (tiles > 0) start_query_copy(rows, shared.queries);
  KW_UNROLL
  for (int s = 0; s < stages - 1; ++s) {
    if (s < tiles) copy.start(s);
    cp_async_commit();
  }

  int stage = 0;
  for (int t = 0; t < tiles; ++t) {
    if constexpr (stages == 1) {
      if (t > 0) block_sync();
      copy.start(0);
      cp_async_commit();
      cp_async_wait<0>();
      block_sync();
    } else {
      cp_async_wait<stages - 2>();
      block_sync();  // tile t is there, and everyone is done with tile t - 1, whose stage the next copies go to
      if (t + stages - 1 < tiles) copy.start(stage == 0 ? stages - 1 : stage - 1);
      cp_async_commit();
    }
    const SharedAddress tile_keys = shared.keys + static_cast<u32>(stage * block_n * layout.row_bytes);

    float scores[key_groups][4];
    if (scores_keys) {
      multiply_keys(warp, shared.queries, tile_keys, scores);
      float tile_max[2] = {-infinity, -infinity};
      KW_UNROLL
      for (int j = 0; j < key_groups; ++j) {
        const u32* pair = shared.owners + stage * block_n + (warp.n * key_groups + j) * 8 + warp.pair * 2;
        KW_UNROLL
        for (int e = 0; e < 4; ++e) {
          scores[j][e] = masked_score(scores[j][e], scale_log2, (pair[e % 2] >> tokens[e / 2] & 1u) != 0);
          tile_max[e / 2] = max_number(tile_max[e / 2], scores[j][e]);
        }
      }
      KW_UNROLL
      for (int r = 0; r < 2; ++r) {
        tile_max[r] = reduce_lanes<4>(tile_max[r], [](float a, float b) { return max_number(a, b); });
        if (warp.pair == 0) shared.row_values[warp.n * block_m + warp.row + 8 * r] = tile_max[r];
      }
    }
    row_sync(warp);

    float alpha[2];
    KW_UNROLL
    for (int r = 0; r < 2; ++r) {
      float new_max = running.max_log2[r];
      KW_UNROLL
      for (int n = 0; n < score_warps; ++n) new_max = max_number(new_max, shared.row_values[n * block_m + warp.row + 8 * r]);
      alpha[r] = exp2_approx(running.max_log2[r] - new_max);
      running.max_log2[r] = new_max;
    }
    if (scores_keys) {
      KW_UNROLL
      for (int r = 0; r < 2; ++r) {
        running.sum[r] *= alpha[r];
        unsigned char* row =
            shared.probabilities + (warp.row + 8 * r) * layout.probability_bytes + (warp.n * key_groups * 8 + warp.pair * 2) * 2;
        KW_UNROLL
        for (int j = 0; j < key_groups; ++j) {
          const float low = exp2_approx(scores[j][2 * r] - running.max_log2[r]);
          const float high = exp2_approx(scores[j][2 * r + 1] - running.max_log2[r]);
          running.sum[r] += low + high;
          *reinterpret_cast<u32*>(row + j * 16) = pack_bf16(low, high);
        }
      }
    }
    row_sync(warp);

    if (any_lane(alpha[0] != 1.0f || alpha[1] != 1.0f)) {
      KW_UNROLL
      for (int j = 0; j < 2 * column_pairs; ++j) {
        KW_UNROLL
        for (int e = 0; e < 4; ++e) running.output[j][e] *= alpha[e / 2];
      }
    }
    multiply_values(warp, shared_address(shared.probabilities), tile_keys, running.output);
    stage = stage + 1 == stages ? 0 : stage + 1;
  }

  // Sums over the lanes and warps that share a row. Every warp of the row is past its last use of row_values and of its rows of Q.
  KW_UNROLL
  for (int r = 0; r < 2; ++r) {
    running.sum[r] = reduce_lanes<4>(running.sum[r], [](float a, float b) { return a + b; });
    if (scores_keys && warp.pair == 0) shared.row_values[warp.n * block_m + warp.row + 8 * r] = running.sum[r];
  }
  row_sync(warp);
  KW_UNROLL
  for (int r = 0; r < 2; ++r) {
    running.sum[r] = 0.0f;
    KW_UNROLL
    for (int n = 0; n < score_warps; ++n) running.sum[r] += shared.row_values[n * block_m + warp.row + 8 * r];
  }
}

/// Behind attend(): scales the rows and stores them as bf16, through the place of Q, 16 bytes at a time.
template <class Rows>
KW_INLINE void store_rows(const Rows& rows, const WarpPlace& warp, const SharedParts& shared, const RunningRows& running) {
  KW_UNROLL
  for (int r = 0; r < 2; ++r) {
    const int row = warp.row + 8 * r;
    const RowScale scale = rows.finish(row, running.max_log2[r], running.sum[r], warp.n == 0 && warp.pair == 0);
    KW_UNROLL
    for (int j = 0; j < 2 * column_pairs; ++j) {
      const int chunk = warp.n * 2 * column_pairs + j;
      const u32 pair = scale.empty ? 0u : pack_bf16(running.output[j][2 * r] * scale.factor, running.output[j][2 * r + 1] * scale.factor);
      *reinterpret_cast<u32*>(shared.staged + row * layout.row_bytes + (chunk ^ (row % 8)) * 16 + warp.pair * 4) = pair;
    }
  }
  row_sync(warp);
  for (int r = warp.n; r < 16; r += layout.warps_n) {
    const int row = warp.m * 16 + r;
    if (rows.padding(row)) continue;
    unsigned char* to = rows.output(row);
    KW_UNROLL
    for (int chunk = lane_id(); chunk < d_v / 8; chunk += 32) {
      store_vector(to + chunk * 16, load_vector<Vec16>(shared.staged + row * layout.row_bytes + (chunk ^ (row % 8)) * 16));
    }
  }
}

}  // namespace kw::mla
