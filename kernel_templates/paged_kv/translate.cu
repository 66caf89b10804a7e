// Virtual token ids to dense ids; the output may be the input itself, since a captured consumer holds its address.
#include "kernwright/specialisation.cuh"
#include "paged_kv/translate_plan.cuh"
#include "paged_kv/translation.cuh"

extern "C" __global__ void __launch_bounds__(kw::tile.warps * 32)
    kw_paged_kv_translate(const __grid_constant__ kw::paged_kv::TranslateParams params) {
  using namespace kw;
  using namespace kw::paged_kv;
  if (params.capacity == 0) return;
  const Integers<specialisation.index_dtype> ids{params.in};
  const PageTable table{params.v2p, params.virtual_pages};
  const i64 count = params.count == nullptr ? params.capacity : maximum<i64>(0, minimum<i64>(*params.count, params.capacity));
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    store_integer<specialisation.index_dtype>(params.out, i, dense_id(table, ids[i]));
  }
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
