// Sparse MLA prefill on mma.sync tensor cores: bf16 products, fp32 accumulators.
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
#include "common/barrier.cuh"
#include "common/bf16.cuh"
#include "common/cp_async.cuh"
#include "common/ldmatrix.cuh"
#include "common/mma.cuh"
#include "common/shared_memory.cuh"
#include "common/warp.cuh"
#include "kernwright/specialisation.cuh"
#include "sparse_mla/prefill_gather.cuh"
#include "sparse_mla/prefill_keys.cuh"
#include "sparse_mla/prefill_plan.cuh"
#include "sparse_mla/prefill_rows.cuh"
#include "sparse_mla/prefill_softmax.cuh"

namespace kw::sparse_mla {

constexpr int block_m = tile.block_m;
constexpr int block_n = tile.block_n;
constexpr int stages = tile.stages;
constexpr int score_warps = minimum(layout.warps_n, block_n / 8);  // along the keys
constexpr int key_groups = block_n / 8 / score_warps;              // of eight keys, of one warp
constexpr int panels = layout.chunks / 8;                          // of 64 columns of Q and K, four mma steps each
constexpr int column_pairs = d_v / layout.warps_n / 16;            // of eight columns each, of one warp
static_assert(d_v / layout.warps_n % 64 == 0, "a warp's columns are whole swizzled panels");

/// Where lane `lane` points ldmatrix in swizzled rows (see prefill_gather.cuh): `step` counts 32 bytes along a row, and the lanes of the
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

}  // namespace kw::sparse_mla

extern "C" __global__ void __launch_bounds__(kw::sparse_mla::layout.threads)
    kw_sparse_mla_prefill(const __grid_constant__ kw::sparse_mla::PrefillParams params) {
  using namespace kw;
  using namespace kw::sparse_mla;
  if (params.tokens == 0) return;

  unsigned char* shared = dynamic_shared();
  const SharedAddress queries = shared_address(shared + layout.query_offset);
  const SharedAddress keys = shared_address(shared + layout.key_offset);
  unsigned char* probabilities = shared + layout.probability_offset;
  u32* owners = reinterpret_cast<u32*>(shared + layout.owners_offset);
  float* row_values = reinterpret_cast<float*>(shared + layout.row_offset);  // [warps_n][block_m]: maxima of a tile, at the end sums

  const WarpPlace warp = warp_place();
  const BlockRows block = block_rows(params, blockIdx.x);
  const KeyList list = key_list(params, block);
  const float scale_log2 = params.sm_scale * log2_e;
  const int tiles = ceil_div(list.count, block_n);
  const bool scores_keys = warp.n < score_warps;
  const int tokens[2] = {BlockRows::token_in_group(warp.row), BlockRows::token_in_group(warp.row + 8)};

  float output[2 * column_pairs][4] = {};
  float max_log2[2] = {initial_max, initial_max};
  float sum[2] = {};  // over this lane's keys

  KeyCopy copy(params, list, keys, owners);
  if (tiles > 0) start_query_copy(params, block, queries);
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
    const SharedAddress tile_keys = keys + static_cast<u32>(stage * block_n * layout.row_bytes);

    float scores[key_groups][4];
    if (scores_keys) {
      multiply_keys(warp, queries, tile_keys, scores);
      float tile_max[2] = {-infinity, -infinity};
      KW_UNROLL
      for (int j = 0; j < key_groups; ++j) {
        const u32* pair = owners + stage * block_n + (warp.n * key_groups + j) * 8 + warp.pair * 2;
        KW_UNROLL
        for (int e = 0; e < 4; ++e) {
          scores[j][e] = masked_score(scores[j][e], scale_log2, (pair[e % 2] >> tokens[e / 2] & 1u) != 0);
          tile_max[e / 2] = max_number(tile_max[e / 2], scores[j][e]);
        }
      }
      KW_UNROLL
      for (int r = 0; r < 2; ++r) {
        tile_max[r] = reduce_lanes<4>(tile_max[r], [](float a, float b) { return max_number(a, b); });
        if (warp.pair == 0) row_values[warp.n * block_m + warp.row + 8 * r] = tile_max[r];
      }
    }
    row_sync(warp);

    float alpha[2];
    KW_UNROLL
    for (int r = 0; r < 2; ++r) {
      float new_max = max_log2[r];
      KW_UNROLL
      for (int n = 0; n < score_warps; ++n) new_max = max_number(new_max, row_values[n * block_m + warp.row + 8 * r]);
      alpha[r] = exp2_approx(max_log2[r] - new_max);
      max_log2[r] = new_max;
    }
    if (scores_keys) {
      KW_UNROLL
      for (int r = 0; r < 2; ++r) {
        sum[r] *= alpha[r];
        unsigned char* row = probabilities + (warp.row + 8 * r) * layout.probability_bytes + (warp.n * key_groups * 8 + warp.pair * 2) * 2;
        KW_UNROLL
        for (int j = 0; j < key_groups; ++j) {
          const float low = exp2_approx(scores[j][2 * r] - max_log2[r]);
          const float high = exp2_approx(scores[j][2 * r + 1] - max_log2[r]);
          sum[r] += low + high;
          *reinterpret_cast<u32*>(row + j * 16) = pack_bf16(low, high);
        }
      }
    }
    row_sync(warp);

    if (any_lane(alpha[0] != 1.0f || alpha[1] != 1.0f)) {
      KW_UNROLL
      for (int j = 0; j < 2 * column_pairs; ++j) {
        KW_UNROLL
        for (int e = 0; e < 4; ++e) output[j][e] *= alpha[e / 2];
      }
    }
    multiply_values(warp, shared_address(probabilities), tile_keys, output);
    stage = stage + 1 == stages ? 0 : stage + 1;
  }

  // Sums over the lanes and warps that share a row. Every warp of the row is past its last use of row_values and of its rows of Q.
  KW_UNROLL
  for (int r = 0; r < 2; ++r) {
    sum[r] = reduce_lanes<4>(sum[r], [](float a, float b) { return a + b; });
    if (scores_keys && warp.pair == 0) row_values[warp.n * block_m + warp.row + 8 * r] = sum[r];
  }
  row_sync(warp);
  unsigned char* staged = shared + layout.query_offset;
  KW_UNROLL
  for (int r = 0; r < 2; ++r) {
    const int row = warp.row + 8 * r;
    float total = 0.0f;
    KW_UNROLL
    for (int n = 0; n < score_warps; ++n) total += row_values[n * block_m + row];
    const RowScale scale = finish_row(params, block.row(row), max_log2[r], total, max_log2[r], warp.n == 0 && warp.pair == 0);
    KW_UNROLL
    for (int j = 0; j < 2 * column_pairs; ++j) {
      const int chunk = warp.n * 2 * column_pairs + j;
      const u32 pair = scale.empty ? 0u : pack_bf16(output[j][2 * r] * scale.factor, output[j][2 * r + 1] * scale.factor);
      *reinterpret_cast<u32*>(staged + row * layout.row_bytes + (chunk ^ (row % 8)) * 16 + warp.pair * 4) = pair;
    }
  }
  row_sync(warp);
  for (int r = warp.n; r < 16; r += layout.warps_n) {
    const int row_in_block = warp.m * 16 + r;
    const Row row = block.row(row_in_block);
    if (row.padding) continue;
    unsigned char* to = output_row(params, row);
    KW_UNROLL
    for (int chunk = lane_id(); chunk < d_v / 8; chunk += 32) {
      store_vector(to + chunk * 16, load_vector<Vec16>(staged + row_in_block * layout.row_bytes + (chunk ^ (row_in_block % 8)) * 16));
    }
  }
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
