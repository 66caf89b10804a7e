// Rows of a step's new tokens into a layer's dense view, one warp a row.
#include "common/warp.cuh"
#include "kernwright/specialisation.cuh"
#include "paged_kv/translation.cuh"
#include "paged_kv/write_rows_plan.cuh"

extern "C" __global__ void __launch_bounds__(kw::tile.warps * 32)
    kw_paged_kv_write_rows(const __grid_constant__ kw::paged_kv::WriteRowsParams params) {
  using namespace kw;
  using namespace kw::paged_kv;
  if (params.count == 0) return;
  constexpr WriteRowsLayout layout = write_rows_layout(specialisation);
  constexpr i64 bytes = element_bytes(specialisation.dtype);
  const i64 row = static_cast<i64>(blockIdx.x) * tile.warps + warp_id();
  if (row >= params.count) return;
  i64 location = params.locations[row];
  if constexpr (specialisation.loc_is_dense == 0) location = dense_id(PageTable{params.v2p, params.virtual_pages}, location);
  if (location <= 0 || location >= params.view_rows) return;

  const unsigned char* latent = static_cast<const unsigned char*>(params.latent) + row * params.latent_stride * bytes;
  const unsigned char* rope = static_cast<const unsigned char*>(params.rope) + row * params.rope_stride * bytes;
  unsigned char* to = static_cast<unsigned char*>(params.view) + location * params.row_stride * bytes;
  for (int at = lane_id() * 16; at < layout.latent_bytes + layout.rope_bytes; at += 32 * 16) {
    const unsigned char* from = at < layout.latent_bytes ? latent + at : rope + (at - layout.latent_bytes);
    store_vector(to + at, load_vector<Vec16>(from));
  }
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
