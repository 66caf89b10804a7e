// Page ids of a batch of requests. A request has `parts` blocks whatever its length, so that the grid depends on the batch alone and a
// captured launch replays no grid for the longest context.
#include "common/dependent_launch.cuh"
#include "common/types.cuh"
#include "kernwright/specialisation.cuh"
#include "paged_kv/block_table_plan.cuh"
#include "paged_kv/translation.cuh"

namespace kw::paged_kv {

using Tokens = Integers<specialisation.token_dtype>;

/// A part's cells of a request: page ids of `pages` pages whose tokens begin at tokens[first].
///
/// A cell is a read of a token and, where ids are translated, one that depends on it. `cells` of each are under way at once: the second
/// reads stand behind no condition, for which a cell past the request has the tombstone row to read.
template <bool translates>
KW_INLINE void write_cells(const BlockTableParams& params, i64 first, i64 pages, i64 part, int* out) {
  constexpr int cells = tile.block_n;
  const Tokens tokens{params.req_to_token};
  const PageTable table{params.v2p, params.virtual_pages};
  const i64 stride = i64{params.parts} * blockDim.x;
  for (i64 page = part * blockDim.x + threadIdx.x; page < pages; page += stride * cells) {
    Tokens::Value token[cells];
    i64 id[cells];
    KW_UNROLL
    for (int c = 0; c < cells; ++c) token[c] = page + c * stride < pages ? tokens.once(first + (page + c * stride) * page_size) : -1;
    KW_UNROLL
    for (int c = 0; c < cells; ++c) id[c] = translates ? table.page(token[c]) : 0;
    KW_UNROLL
    for (int c = 0; c < cells; ++c) {
      if (page + c * stride >= pages) continue;
      out[page + c * stride] = static_cast<int>(translates ? dense_page(id[c]) : static_page(token[c]));
    }
  }
}

}  // namespace kw::paged_kv

extern "C" __global__ void __launch_bounds__(kw::tile.warps * 32)
    kw_paged_kv_block_table(const __grid_constant__ kw::paged_kv::BlockTableParams params) {
  using namespace kw;
  using namespace kw::paged_kv;
  if (params.batch == 0) return;
  launch_dependents();
  wait_for_previous_kernel();
  const i64 lane = blockIdx.x / static_cast<u32>(params.parts);
  const i64 part = blockIdx.x % static_cast<u32>(params.parts);
  const Integers<specialisation.request_dtype> requests{params.requests}, lengths{params.lengths}, starts{params.starts};
  // Side by side: there is no condition between them.
  const i64 length = lengths.once(lane);
  const i64 request = requests.once(lane);
  const i64 start = starts.present() ? starts.once(lane) : 0;
  const i64 first = request * params.token_stride + start;
  const i64 pages = length <= 0 ? 0 : (length - 1) / page_size + 1;
  int* out = params.out + lane * params.out_stride;
  if (PageTable{params.v2p, params.virtual_pages}.translates()) {
    write_cells<has_table>(params, first, pages, part, out);
  } else {
    write_cells<false>(params, first, pages, part, out);
  }
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
