#include "common/atomics.cuh"
#include "common/barrier.cuh"
#include "common/bits.cuh"
#include "common/mbarrier.cuh"
#include "common/shared_memory.cuh"
#include "common/warp.cuh"
#include "gather_limit/arrived.cuh"
#include "gather_limit/bulk_copy.cuh"
#include "gather_limit/gather_plan.cuh"
#include "gather_limit/tile_walk.cuh"

// A lane copies and looks at the same rows of every stage. Each round ends a phase of every stage's barrier, also where it fills nothing.
extern "C" __global__ void __launch_bounds__(32 * kw::tile.warps, gather_limit::resident_blocks(kw::tile))
    gather_limit_gather(const __grid_constant__ gather_limit::GatherParams params) {
  using namespace gather_limit;
  static_assert(kw::tile.warps == 1);
  if (params.tokens == 0) return;
  constexpr int rows_at_once = 32;
  const int lane = kw::lane_id();
  unsigned char* const ring = kw::dynamic_shared();
  const kw::SharedAddress barriers = kw::shared_address(ring + barriers_at(kw::tile));
  if (lane == 0) {
    for (int stage = 0; stage < kw::tile.stages; ++stage) kw::mbarrier_init(barriers + static_cast<kw::u32>(stage) * kw::mbarrier_bytes, 1);
    kw::mbarrier_init_fence();
  }
  kw::block_sync();
  using Walk = TileWalk<rows_at_once>;
  Walk walk(params, reinterpret_cast<kw::u32*>(ring + taken_at(kw::tile)), lane);

  Filling filled[kw::tile.stages];
  kw::u32 round_before = 1;  // its parity; a fresh barrier counts as past 1
  bool filling = true;
  while (filling) {  // a whole round that fills nothing has waited for every stage
    filling = false;
    KW_UNROLL
    for (int stage = 0; stage < kw::tile.stages; ++stage) {
      const kw::SharedAddress full = barriers + static_cast<kw::u32>(stage) * kw::mbarrier_bytes;
      kw::mbarrier_wait(full, round_before);
      unsigned char* const to = ring + stage * stage_bytes(kw::tile) + lane * row_bytes;
      if (params.sums != nullptr && filled[stage].present != 0) {
        kw::u32 sum = 0;
        KW_UNROLL
        for (int pass = 0; pass < Walk::passes; ++pass) {
          if ((filled[stage].present >> pass & 1) == 0) continue;
          for (int piece = 0; piece < row_bytes / 16; ++piece)
            sum += weighted_words(to + pass * rows_at_once * row_bytes + piece * 16, piece);
        }
        kw::atomic_add_global(params.sums + filled[stage].token, sum);
        kw::async_proxy_fence();  // the reads come before the copies that follow
      }
      filled[stage] = {walk.token(), 0};
      int rows = 0;  // of all lanes
      KW_UNROLL
      for (int pass = 0; pass < Walk::passes; ++pass) {
        const bool present = walk.kv_row(pass) >= 0 && walk.kv_row(pass) < params.kv_rows;
        filled[stage].present |= static_cast<kw::u32>(present) << pass;
        // A vote, which also holds the lanes together: none is a round behind, where a parity would mean another phase.
        rows += kw::popcount(kw::ballot(present));
      }
      if (lane == 0) arrive_expecting(full, static_cast<kw::u32>(rows * row_bytes));
      KW_UNROLL
      for (int pass = 0; pass < Walk::passes; ++pass) {
        if ((filled[stage].present >> pass & 1) == 0) continue;
        bulk_copy(kw::shared_address(to + pass * rows_at_once * row_bytes), params.kv + static_cast<kw::i64>(walk.kv_row(pass)) * row_bytes,
                  row_bytes, full);
      }
      if (!walk.done()) {
        filling = true;
        walk.next();
      }
    }
    round_before ^= 1u;
  }
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
