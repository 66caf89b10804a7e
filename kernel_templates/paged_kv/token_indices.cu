// Dense ids of every token of a batch of requests, back to back. The grid depends on the batch alone.
#include "kernwright/specialisation.cuh"
#include "paged_kv/token_indices_plan.cuh"
#include "paged_kv/translation.cuh"

extern "C" __global__ void __launch_bounds__(kw::tile.warps * 32)
    kw_paged_kv_token_indices(const __grid_constant__ kw::paged_kv::TokenIndicesParams params) {
  using namespace kw;
  using namespace kw::paged_kv;
  if (params.batch == 0) return;
  const i64 lane = blockIdx.x / static_cast<u32>(params.parts);
  const i64 part = blockIdx.x % static_cast<u32>(params.parts);
  const Integers<specialisation.request_dtype> requests{params.requests}, lengths{params.lengths}, starts{params.starts};
  const Integers<specialisation.token_dtype> tokens{params.req_to_token};
  const PageTable table{params.v2p, params.virtual_pages};
  const i64 length = lengths[lane];
  if (length <= 0) return;
  const i64 first = requests[lane] * params.token_stride + (starts.present() ? starts[lane] : 0);
  const i64 to = params.offsets[lane];
  for (i64 i = part * blockDim.x + threadIdx.x; i < length; i += i64{params.parts} * blockDim.x) {
    store_integer<specialisation.index_dtype>(params.out, to + i, dense_id(table, tokens[first + i]));
  }
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
