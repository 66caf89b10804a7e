// The scoring warpgroup: S = Q Kᵀ, the running softmax, and P.
#pragma once

#include "common/barrier.cuh"
#include "common/bf16.cuh"
#include "common/cp_async.cuh"
#include "common/math.cuh"
#include "common/mbarrier.cuh"
#include "common/stmatrix.cuh"
#include "common/types.cuh"
#include "common/warp.cuh"
#include "common/wgmma.cuh"
#include "mla/softmax.cuh"
#include "mla/wgmma_queue.cuh"
#include "mla/wgmma_shared.cuh"

namespace kw::mla {

/// What a thread of the scoring warpgroup holds of Q: rows `row` and `row` + 8 of the block.
struct QueryRegisters {
  u32 step[register_panels * 4][4];
};

/// All reads are on their way before one is waited for: Q is as far away as memory.
template <class Rows>
KW_INLINE void load_query(const Rows& block, const Shared& shared, int row, int pair, QueryRegisters& query) {
  named_barrier_sync(scores_barrier, warpgroup);  // all warps are past the products that read the shared panels before
  const int thread = static_cast<int>(threadIdx.x) % warpgroup;
  const int piece = thread % 8;
  KW_UNROLL_BY(1)
  for (int r = thread / 8; r < block_m; r += warpgroup / 8) {
    const unsigned char* from = block.query(r) + register_panels * 128 + piece * 16;
    const SharedAddress to = shared.query() + static_cast<u32>(r * 128 + (piece ^ (r % 8)) * 16);
    KW_UNROLL
    for (int p = 0; p < shared_panels; ++p) cp_async_16(to + static_cast<u32>(p * query_panel_bytes), from + p * 128, 16);
  }
  cp_async_commit();
  const unsigned char* rows[2] = {block.query(row), block.query(row + 8)};
  KW_UNROLL
  for (int s = 0; s < register_panels * 4; ++s) {
    KW_UNROLL
    for (int e = 0; e < 4; ++e) query.step[s][e] = *reinterpret_cast<const u32*>(rows[e % 2] + s * 32 + e / 2 * 16 + pair * 4);
  }
  cp_async_wait<0>();
  async_proxy_fence();
  named_barrier_sync(scores_barrier, warpgroup);
}

constexpr int steps = panels * 4;  // of 16 columns of Q and K
constexpr int chains = 4;
static_assert(steps % chains == 0);
using Products = float[block_n / 2];

KW_INLINE void multiply_step(const Shared& shared, u64 keys, const QueryRegisters& query, int step, Products& products, bool accumulate) {
  const u64 key = advance_descriptor(keys, static_cast<u32>(step / 4 * panel_bytes + step % 4 * 32));
  if (step < register_panels * 4) {
    wgmma_m64k16_registers(products, query.step[step], key, accumulate);
  } else {
    const int at = step - register_panels * 4;
    const u64 panels_in_shared = matrix_descriptor<SharedSwizzle::bytes_128, 0, 1024>(shared.query());
    wgmma_m64k16(products, advance_descriptor(panels_in_shared, static_cast<u32>(at / 4 * query_panel_bytes + at % 4 * 32)), key,
                 accumulate);
  }
}

/// Starts a quarter of S = Q Kᵀ of the stage. The quarters are summed by the tensor cores from zero and added in fp32: a tensor core
/// truncates where fp32 arithmetic rounds, and one chain of 36 steps was seen to put lse off by 2.1e-4 at a logit of 149.
template <int chain>
KW_INLINE void start_chain(const Shared& shared, u64 keys, const QueryRegisters& query, Products& products) {
  wgmma_fence();
  KW_UNROLL
  for (int i = 0; i < steps / chains; ++i) multiply_step(shared, keys, query, chain * (steps / chains) + i, products, i > 0);
  wgmma_commit();
}

KW_INLINE void add_scaled(Products& scores, const Products& products, float scale) {
  KW_UNROLL
  for (int i = 0; i < block_n / 2; ++i) scores[i] = fused_multiply_add(products[i], scale, scores[i]);
}

/// A thread's two rows of the running softmax. A score is kept relative to `reference`, a maximum of some time ago.
struct RunningRows {
  float reference[2] = {};
  float limit[2] = {-infinity, -infinity};    // a score above it moves the reference: any, until the row has met a key
  float largest[2] = {-infinity, -infinity};  // of this thread's keys
  float sum[2] = {};                          // likewise
};

/// What the thread owns of the tile's mask: element i of `scores` is key i / 4 * 8 + pair * 2 + i % 2, row i / 2 % 2.
struct TileOwners {
  const u32* owners;
  u32 bit[2];
  KW_INLINE Vec8 of(int j) const { return load_vector<Vec8>(owners + j * 8); }
};

/// What the scores begin with: minus infinity where the row's token does not own the key, else minus the reference.
template <class Work>
KW_INLINE void begin_scores(const TileOwners& owners, const RunningRows& running, Products& scores) {
  Vec8 own[block_n / 8];
  u32 all = ~0u;
  KW_UNROLL
  for (int j = 0; j < block_n / 8; ++j) {
    own[j] = owners.of(j);
    all &= own[j].word[0] & own[j].word[1];
  }
  // With one token a slot is seldom empty, and a whole tile is the usual case.
  const bool masked = !Work::one_token || any_lane(all == 0);
  KW_UNROLL
  for (int i = 0; i < block_n / 2; ++i) scores[i] = -running.reference[i / 2 % 2];
  if (!masked) return;
  constexpr int tokens = Work::token_has_16_rows ? 1 : 2;  // of a thread's two rows
  KW_UNROLL
  for (int j = 0; j < block_n / 8; ++j) {
    KW_UNROLL
    for (int e = 0; e < 4; ++e) {
      if ((own[j].word[e % 2] & owners.bit[e / 2 % tokens]) == 0) scores[j * 4 + e] = -infinity;
    }
  }
}

/// P of the thread's scores, rounded in pairs, and its sums before rounding.
KW_INLINE void exponentials(const Products& scores, u32 (&packed)[2][block_n / 8], float (&sum)[2]) {
  KW_UNROLL
  for (int r = 0; r < 2; ++r) {
    sum[r] = 0.0f;
    KW_UNROLL
    for (int j = 0; j < block_n / 8; ++j) {
      const float low = exp2_approx(scores[j * 4 + 2 * r]);
      const float high = exp2_approx(scores[j * 4 + 2 * r + 1]);
      sum[r] += low + high;
      packed[r][j] = pack_bf16(low, high);
    }
  }
}

/// Of this thread's scores.
KW_INLINE void tile_maximum(const Products& scores, float (&tile_max)[2]) {
  KW_UNROLL
  for (int r = 0; r < 2; ++r) {
    float of_pairs[block_n / 16];
    KW_UNROLL
    for (int j = 0; j < block_n / 16; ++j) {
      const float* pair = &scores[j * 8 + 2 * r];
      of_pairs[j] = max_number(max_number(pair[0], pair[1]), max_number(pair[4], pair[5]));
    }
    tile_max[r] = of_pairs[0];
    KW_UNROLL
    for (int j = 1; j < block_n / 16; ++j) tile_max[r] = max_number(tile_max[r], of_pairs[j]);
  }
}

/// Softmax of a finished tile of scores: P into the slot, and the factor that O is to be multiplied by before it is added. P is computed
/// before it is known whether the reference stays: nearly always it does.
KW_INLINE void finish_tile(const Shared& shared, const TileOwners& owners, const RingPlace<slots>& slot, int warp, int row, int pair,
                           Products& scores, RunningRows& running) {
  u32 packed[2][block_n / 8];
  float sum[2];
  float tile_max[2];
  float factor[2] = {1.0f, 1.0f};
  exponentials(scores, packed, sum);
  tile_maximum(scores, tile_max);
  const bool again = tile_max[0] > running.limit[0] || tile_max[1] > running.limit[1] || sum[0] != sum[0] || sum[1] != sum[1];
  if (any_lane(again)) {
    // NaN: a product overflowed. That of a key which is not the row's own must leave no trace; -inf + inf would.
    KW_UNROLL
    for (int j = 0; j < block_n / 8; ++j) {
      const Vec8 own = owners.of(j);
      KW_UNROLL
      for (int e = 0; e < 4; ++e) {
        if ((own.word[e % 2] & owners.bit[e / 2]) == 0) scores[j * 4 + e] = -infinity;
      }
    }
    KW_UNROLL
    for (int r = 0; r < 2; ++r) tile_max[r] = reduce_lanes<4>(tile_max[r], [](float a, float b) { return max_number(a, b); });
    KW_UNROLL
    for (int r = 0; r < 2; ++r) {
      if (!(tile_max[r] > running.limit[r])) continue;
      factor[r] = running.limit[r] == -infinity ? 0.0f : exp2_approx(-tile_max[r]);
      running.limit[r] = rescale_threshold;
      running.reference[r] += tile_max[r];
      running.sum[r] *= factor[r];
      KW_UNROLL
      for (int i = 0; i < block_n / 2; ++i) {
        if (i / 2 % 2 == r) scores[i] -= tile_max[r];
      }
      running.largest[r] = max_number(running.largest[r], running.reference[r]);
      tile_max[r] = -infinity;
    }
    exponentials(scores, packed, sum);
  }
  KW_UNROLL
  for (int r = 0; r < 2; ++r) {
    running.largest[r] = max_number(running.largest[r], running.reference[r] + tile_max[r]);
    running.sum[r] += sum[r];
  }
  mbarrier_wait(shared.taken(slot.slot), slot.round ^ 1u);
  const int stored_row = warp * 16 + lane_id() / 8 % 2 * 8 + lane_id() % 8;
  const SharedAddress probability =
      shared.probability(slot.slot) + static_cast<u32>(stored_row * 32 + (lane_id() / 16 ^ stored_row / 4 % 2) * 16);
  KW_UNROLL
  for (int j = 0; j < block_n / 8; j += 2) {
    const u32 fragment[4] = {packed[0][j], packed[1][j], packed[0][j + 1], packed[1][j + 1]};
    stmatrix_x4(probability + static_cast<u32>(j / 2 * probability_panel_bytes), fragment);
  }
  if (pair == 0) {
    shared.factors(slot.slot)[row] = factor[0];
    shared.factors(slot.slot)[row + 8] = factor[1];
  }
}

template <class Work>
KW_INLINE void score(const Work& work, const Shared& shared) {
  const int warp = warp_id() % 4;
  const int row = warp * 16 + lane_id() / 4;
  const int pair = lane_id() % 4;
  const float scale_log2 = work.sm_scale() * log2_e;
  RingPlace<stages> ring;  // the stage whose products are started next
  RingPlace<slots> slot;
  WorkQueue<typename Work::Item, Shared> queue(shared);
  for (;;) {
    const typename Work::Item item = queue.next();
    if (item.none()) return;
    const int tiles = static_cast<int>(item.tiles());
    QueryRegisters query;
    load_query(work.rows(item), shared, row, pair, query);
    RunningRows running;
    for (int t = 0; t < tiles; ++t) {
      Products even;
      Products odd;
      Products scores;
      mbarrier_wait(shared.full(ring.slot), ring.round);
      async_proxy_fence();  // the stage's rows, and P of the tile before
      const u64 keys = matrix_descriptor<SharedSwizzle::bytes_128, 0, 1024>(shared.stage(ring.slot));
      start_chain<0>(shared, keys, query, even);
      start_chain<1>(shared, keys, query, odd);
      // Beside the products: the mask and the reference are what the scores begin with.
      const TileOwners owners{shared.owners(ring.slot) + pair * 2, {work.owner_bit(item, row), work.owner_bit(item, row + 8)}};
      begin_scores<Work>(owners, running, scores);
      wgmma_wait<1>();
      add_scaled(scores, even, scale_log2);
      start_chain<2>(shared, keys, query, even);
      wgmma_wait<1>();
      // The tile before is handed on when half of the products are through: its P V then fills the tensor cores during this softmax more
      // than beside the products.
      if (t > 0) mbarrier_arrive(shared.ready(slot.slot ^ 1u));
      add_scaled(scores, odd, scale_log2);
      start_chain<3>(shared, keys, query, odd);
      wgmma_wait<1>();
      add_scaled(scores, even, scale_log2);
      wgmma_wait<0>();
      add_scaled(scores, odd, scale_log2);
      finish_tile(shared, owners, slot, warp, row, pair, scores, running);
      mbarrier_arrive(shared.free(ring.slot));
      ring.next();
      slot.next();
    }
    if (tiles > 0) {
      async_proxy_fence();
      mbarrier_arrive(shared.ready(slot.slot ^ 1u));
    }
    // The last slot of a block carries what the output is multiplied by; 0 for rows without a key.
    mbarrier_wait(shared.taken(slot.slot), slot.round ^ 1u);
    KW_UNROLL
    for (int r = 0; r < 2; ++r) {
      const float sum = reduce_lanes<4>(running.sum[r], [](float a, float b) { return a + b; });
      const float largest = reduce_lanes<4>(running.largest[r], [](float a, float b) { return max_number(a, b); });
      const RowScale scale = work.finish(item, row + 8 * r, running.reference[r], sum, largest, pair == 0);
      if (pair == 0) shared.factors(slot.slot)[row + 8 * r] = scale.empty ? 0.0f : scale.factor;
    }
    mbarrier_arrive(shared.ready(slot.slot));
    slot.next();
  }
}

}  // namespace kw::mla
