// Zeros in whole page envelopes: what reads a page masks by arithmetic, and 0 times NaN is NaN.
#include "common/types.cuh"
#include "kernwright/specialisation.cuh"
#include "paged_kv/zero_pages_plan.cuh"

extern "C" __global__ void __launch_bounds__(kw::tile.warps * 32)
    kw_paged_kv_zero_pages(const __grid_constant__ kw::paged_kv::ZeroPagesParams params) {
  using namespace kw;
  using namespace kw::paged_kv;
  if (params.count == 0) return;
  const i64 page = blockIdx.x / static_cast<u32>(params.parts);
  const i64 part = blockIdx.x % static_cast<u32>(params.parts);
  unsigned char* to = params.pool + params.pages[page] * params.page_bytes;
  const i64 step = i64{params.parts} * blockDim.x * 16;
  for (i64 at = (part * blockDim.x + threadIdx.x) * 16; at < params.page_bytes; at += step) store_vector(to + at, Vec16{});
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
