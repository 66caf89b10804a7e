// Page envelopes from place to place. No page is in two pairs, so the order of blocks does not matter.
#include "common/types.cuh"
#include "kernwright/specialisation.cuh"
#include "paged_kv/move_pages_plan.cuh"

extern "C" __global__ void __launch_bounds__(kw::tile.warps * 32)
    kw_paged_kv_move_pages(const __grid_constant__ kw::paged_kv::MovePagesParams params) {
  using namespace kw;
  using namespace kw::paged_kv;
  if (params.count == 0) return;
  const i64 pair = blockIdx.x / static_cast<u32>(params.parts);
  const i64 part = blockIdx.x % static_cast<u32>(params.parts);
  const unsigned char* from = params.pool + params.moves[pair * 2] * params.page_bytes;
  unsigned char* to = params.pool + params.moves[pair * 2 + 1] * params.page_bytes;
  const i64 step = i64{params.parts} * blockDim.x * 16;
  for (i64 at = (part * blockDim.x + threadIdx.x) * 16; at < params.page_bytes; at += step) {
    store_vector(to + at, load_vector<Vec16>(from + at));
  }
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
