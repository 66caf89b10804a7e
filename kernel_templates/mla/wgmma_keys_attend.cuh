// The computing warpgroup where keys are rows of products: Sᵀ = K Qᵀ, the running softmax, Oᵀ += Vᵀ Pᵀ.
#pragma once

#include "common/barrier.cuh"
#include "common/barrier_any.cuh"
#include "common/cp_async.cuh"
#include "common/math.cuh"
#include "common/mbarrier.cuh"
#include "common/types.cuh"
#include "common/warp.cuh"
#include "common/wgmma.cuh"
#include "mla/wgmma_keys_output.cuh"
#include "mla/wgmma_keys_shared.cuh"
#include "mla/wgmma_keys_softmax.cuh"
#include "mla/wgmma_queue.cuh"

namespace kw::mla {

constexpr int steps = panels * 4;  // of 16 columns of Q and K
constexpr int chains = 4;
static_assert(steps % chains == 0);

/// Starts to fetch the queries of an item's heads into shared memory.
template <class Work>
KW_INLINE void start_queries(const Work& work, const Shared& shared, const typename Work::Item& item) {
  if (item.none()) return;
  const auto rows = work.rows(item);
  constexpr int rows_at_once = minimum(block_heads, 16);
  constexpr int panels_at_once = 16 / rows_at_once;
  const int thread = static_cast<int>(reread_thread_index()) % warpgroup;  // addresses are not worth registers in the loop over tiles
  const int piece = thread % 8;
  KW_UNROLL_BY(1)
  for (int r = thread / 8 % rows_at_once; r < block_heads; r += rows_at_once) {
    const unsigned char* from = rows.query(r) + piece * 16;
    const SharedAddress to = shared.query() + static_cast<u32>(r * 128 + (piece ^ (r % 8)) * 16);
    KW_UNROLL
    for (int p = 0; p < panels; p += panels_at_once) {
      const int panel = p + thread / (8 * rows_at_once);
      if (panel < panels) cp_async_16(to + static_cast<u32>(panel * query_panel_bytes), from + panel * 128, 16);
    }
  }
  cp_async_commit();
}

/// What start_queries fetched and what this thread staged is there for all threads and their products.
KW_INLINE void meet_with_queries() {
  cp_async_wait<0>();
  async_proxy_fence();
  named_barrier_sync(computing_barrier, warpgroup);
}

/// Sᵀ = K Qᵀ of a stage, in base 2 and relative to the references; minus infinity where the slot is empty. The tensor cores sum it in four
/// chains from zero, which are added in fp32: a tensor core truncates where fp32 arithmetic rounds. The chains take turns, so that no
/// product waits for the one before it.
KW_INLINE void score_tile(const Shared& shared, SharedAddress stage, const bool (&owned)[2], const RunningHeads& running, float scale_log2,
                          Tile64& scores) {
  const u64 keys = matrix_descriptor<SharedSwizzle::bytes_128, 0, 1024>(stage);
  const u64 queries = matrix_descriptor<SharedSwizzle::bytes_128, 0, 1024>(shared.query());
  Tile64 chain[chains];
  wgmma_fence();
  KW_UNROLL
  for (int i = 0; i < steps / chains; ++i) {
    KW_UNROLL
    for (int c = 0; c < chains; ++c) {
      const int step = c * (steps / chains) + i;
      wgmma_m64k16<Major::k>(chain[c], advance_descriptor(keys, static_cast<u32>(step / 4 * panel_bytes + step % 4 * 32)),
                             advance_descriptor(queries, static_cast<u32>(step / 4 * query_panel_bytes + step % 4 * 32)), i > 0);
    }
  }
  wgmma_commit();
  KW_UNROLL
  for (int i = 0; i < elements; ++i) scores[i] = owned[i / 2 % 2] ? -running.reference[head_of(i)] : -infinity;  // beside the products
  wgmma_wait<0>();
  KW_UNROLL
  for (int c = 0; c < chains; ++c) {
    KW_UNROLL
    for (int i = 0; i < elements; ++i) scores[i] = fused_multiply_add(chain[c][i], scale_log2, scores[i]);
  }
}

/// P of a tile's scores into shared memory, for every warp; O is multiplied where a reference moves. P is computed before it is known
/// whether the references stay: nearly always they do, and the barrier that hands P on tells.
KW_INLINE void softmax_tile(const Shared& shared, const bool (&owned)[2], int warp, Tile64& scores, RunningHeads& running, Output& output) {
  Probabilities probabilities;
  probabilities.compute(scores);
  bool again = false;
  KW_UNROLL
  for (int j = 0; j < elements; j += 4) {
    KW_UNROLL
    for (int e = 0; e < 2; ++e) {
      const int h = head_of(j + e);
      const float largest = max_number(scores[j + e], scores[j + e + 2]);
      again = again || largest > running.limit[h] || probabilities.sum[h] != probabilities.sum[h];
      running.largest[h] = max_number(running.largest[h], running.reference[h] + largest);
    }
  }
  probabilities.store(shared, warp);
  async_proxy_fence();
  if (named_barrier_any(computing_barrier, warpgroup, again)) {
    move_references(shared, owned, warp, scores, running, output);
    probabilities.compute(scores);
    probabilities.store(shared, warp);
    async_proxy_fence();
    named_barrier_sync(computing_barrier, warpgroup);
  }
  KW_UNROLL
  for (int h = 0; h < thread_heads; ++h) running.sum[h] += probabilities.sum[h];
}

/// Oᵀ += Vᵀ Pᵀ of a stage: 64 columns of V are the rows of a product, so that V is read along its rows (M-major) where K is read across
/// them.
KW_INLINE void add_values(const Shared& shared, SharedAddress stage, Output& output) {
  const u64 values = matrix_descriptor<SharedSwizzle::bytes_128, panel_bytes, 1024>(stage);
  const u64 probability = matrix_descriptor<SharedSwizzle::bytes_128, 0, 1024>(shared.probability());
  wgmma_fence();
  KW_UNROLL
  for (int s = 0; s < block_n / 16; ++s) {
    KW_UNROLL
    for (int p = 0; p < value_panels; ++p) {
      wgmma_m64k16<Major::mn>(output[p], advance_descriptor(values, static_cast<u32>(p * panel_bytes + s * 16 * 128)),
                              advance_descriptor(probability, static_cast<u32>(s * 32)), true);
    }
  }
  wgmma_commit();
  wgmma_wait<0>();
}

template <class Work>
KW_INLINE void attend_keys(const Work& work, const Shared& shared) {
  const int warp = warp_id() % computing_warps;
  const float scale_log2 = work.sm_scale() * log2_e;
  RingPlace<stages> ring;
  RingPlace<stages> before{stages - 1, 1u};  // the stage before, free once every warp is through with its P
  WorkQueue<typename Work::Item, Shared> queue(shared);
  if (warp == 0) queue.put_first(work.first());
  typename Work::Item item = queue.next();
  start_queries(work, shared, item);
  meet_with_queries();
  while (!item.none()) {
    if (warp == 0) queue.put_another(work.after(item));  // here, since what holds the gather up cannot be made good
    const int tiles = static_cast<int>(item.tiles());
    typename Work::Item following;
    RunningHeads running;
    Output output = {};
    KW_UNROLL_BY(1)
    for (int t = 0; t < tiles; ++t) {
      mbarrier_wait(shared.full(ring.slot), ring.round);
      async_proxy_fence();
      // The same for all lanes, said so that a register of the warp holds it: descriptors must be in such.
      const SharedAddress stage{shuffle(shared.stage(ring.slot).offset, 0)};
      const u8* owners = shared.owners(ring.slot) + warp * 16 + lane_id() / 4;
      const bool owned[2] = {owners[0] != 0, owners[8] != 0};
      Tile64 scores;
      score_tile(shared, stage, owned, running, scale_log2, scores);
      mbarrier_wait(shared.free(before.slot), before.round);
      softmax_tile(shared, owned, warp, scores, running, output);
      if (t == tiles - 1) {  // every warp is through with the queries
        following = queue.next();
        start_queries(work, shared, following);
      }
      add_values(shared, stage, output);
      if (t == tiles - 1) break;  // the output leaves through this stage
      mbarrier_arrive(shared.free(ring.slot));
      before = ring;
      ring.next();
    }
    if (tiles == 0) {
      following = queue.next();
      start_queries(work, shared, following);
    }
    float factor[thread_heads];
    finish_heads(work, item, shared, warp, running, factor);
    bool whole = true;
    if constexpr (Work::has_partials) whole = !item.partial();
    if (whole && tiles > 0) stage_output(shared.stage(ring.slot), warp, output, factor);
    meet_with_queries();
    if (whole) write_output(work.rows(item), shared.stage_contents(ring.slot), tiles == 0);
    if constexpr (Work::has_partials) {
      if (!whole) write_partial(work, item, warp, output, factor);
    }
    if (tiles > 0) {
      mbarrier_arrive(shared.free(ring.slot));
      before = ring;
      ring.next();
    }
    item = following;
  }
}

}  // namespace kw::mla
