#include "common/atomics.cuh"
#include "common/cp_async.cuh"
#include "common/shared_memory.cuh"
#include "gather_limit/arrived.cuh"
#include "gather_limit/gather_plan.cuh"
#include "gather_limit/tile_walk.cuh"

// A thread waits for its own copies and fills only what it filled before, so that there is no barrier between stages: nothing but the
// copies sets the pace.
extern "C" __global__ void __launch_bounds__(32 * kw::tile.warps, gather_limit::resident_blocks(kw::tile))
    gather_limit_gather(const __grid_constant__ gather_limit::GatherParams params) {
  using namespace gather_limit;
  if (params.tokens == 0) return;
  constexpr int rows_at_once = 32 * kw::tile.warps / threads_per_row;
  constexpr int panel_bytes = 16 * threads_per_row;
  constexpr int panels = row_bytes / panel_bytes;
  static_assert(row_bytes % panel_bytes == 0);
  const int piece = static_cast<int>(threadIdx.x) % threads_per_row;
  const int row = static_cast<int>(threadIdx.x) / threads_per_row;
  unsigned char* const own = kw::dynamic_shared() + row * row_bytes + piece * 16;
  using Walk = TileWalk<rows_at_once>;
  Walk walk(params, reinterpret_cast<kw::u32*>(kw::dynamic_shared() + taken_at(kw::tile)), row);

  Filling filled[kw::tile.stages];
  bool filling = true;
  while (filling) {  // a whole round that fills nothing has waited for every stage
    filling = false;
    KW_UNROLL
    for (int stage = 0; stage < kw::tile.stages; ++stage) {
      kw::cp_async_wait<kw::tile.stages - 1>();
      unsigned char* const to = own + stage * stage_bytes(kw::tile);
      if (params.sums != nullptr && filled[stage].present != 0) {
        kw::u32 sum = 0;
        KW_UNROLL
        for (int pass = 0; pass < Walk::passes; ++pass) {
          if ((filled[stage].present >> pass & 1) == 0) continue;
          for (int panel = 0; panel < panels; ++panel)
            sum += weighted_words(to + pass * rows_at_once * row_bytes + panel * panel_bytes, panel * threads_per_row + piece);
        }
        kw::atomic_add_global(params.sums + filled[stage].token, sum);
      }
      filled[stage] = {walk.token(), 0};
      if (!walk.done()) {
        filling = true;
        KW_UNROLL
        for (int pass = 0; pass < Walk::passes; ++pass) {
          const int kv_row = walk.kv_row(pass);
          if (kv_row < 0 || kv_row >= params.kv_rows) continue;
          filled[stage].present |= 1u << pass;
          const unsigned char* const from = params.kv + static_cast<kw::i64>(kv_row) * row_bytes + piece * 16;
          const kw::SharedAddress place = kw::shared_address(to + pass * rows_at_once * row_bytes);
          KW_UNROLL
          for (int panel = 0; panel < panels; ++panel)
            kw::cp_async_16(place + static_cast<kw::u32>(panel * panel_bytes), from + panel * panel_bytes, 16);
        }
        walk.next();
      }
      kw::cp_async_commit();
    }
  }
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
