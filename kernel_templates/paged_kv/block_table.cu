// Page ids of a batch of requests. A request has `parts` blocks whatever its length, so that the grid depends on the batch alone and a
// captured launch replays no grid for the longest context.
#include "kernwright/specialisation.cuh"
#include "paged_kv/block_table_plan.cuh"
#include "paged_kv/translation.cuh"

extern "C" __global__ void __launch_bounds__(kw::tile.warps * 32)
    kw_paged_kv_block_table(const __grid_constant__ kw::paged_kv::BlockTableParams params) {
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
  const i64 pages = (length - 1) / page_size + 1;
  for (i64 page = part * blockDim.x + threadIdx.x; page < pages; page += i64{params.parts} * blockDim.x) {
    params.out[lane * params.out_stride + page] = static_cast<int>(dense_page(table, tokens[first + page * page_size]));
  }
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
