// Dense ids for a captured decode's writes. The tail is zeroed: a padded row with a stale location would land in a live page.
#include "kernwright/specialisation.cuh"
#include "paged_kv/translation.cuh"
#include "paged_kv/write_locations_plan.cuh"

extern "C" __global__ void __launch_bounds__(kw::tile.warps * 32)
    kw_paged_kv_write_locations(const __grid_constant__ kw::paged_kv::WriteLocationsParams params) {
  using namespace kw;
  using namespace kw::paged_kv;
  if (params.capacity == 0) return;
  const PageTable table{params.v2p, params.virtual_pages};
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < params.capacity; i += step) {
    params.out[i] = i < params.count ? dense_id(table, params.in[i]) : 0;
  }
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
