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
  // A cell is a read of a token and, with a table, one that depends on it: several cells' reads are under way at once.
  constexpr int cells = tile.block_n;
  const i64 stride = i64{params.parts} * blockDim.x;
  for (i64 page = part * blockDim.x + threadIdx.x; page < pages; page += stride * cells) {
    decltype(tokens)::Value token[cells];
    i64 id[cells];
    KW_UNROLL
    for (int c = 0; c < cells; ++c) token[c] = page + c * stride < pages ? tokens.once(first + (page + c * stride) * page_size) : -1;
    KW_UNROLL
    for (int c = 0; c < cells; ++c) id[c] = page + c * stride < pages ? dense_page(table, token[c]) : 0;
    KW_UNROLL
    for (int c = 0; c < cells; ++c) {
      if (page + c * stride < pages) params.out[lane * params.out_stride + page + c * stride] = static_cast<int>(id[c]);
    }
  }
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
