// Scattered cells of a pool's tables. They travel with the launch: an update needs no staging memory and is ordered by its stream alone.
#include "common/types.cuh"
#include "kernwright/specialisation.cuh"
#include "paged_kv/update_tables_plan.cuh"

extern "C" __global__ void __launch_bounds__(kw::tile.warps * 32)
    kw_paged_kv_update_tables(const __grid_constant__ kw::paged_kv::UpdateTablesParams params) {
  using namespace kw::paged_kv;
  for (int i = static_cast<int>(threadIdx.x); i < params.count; i += kw::tile.warps * 32) {
    const UpdateTablesParams::Cell& cell = params.cells[i];
    params.tables[cell.place % most_tables][cell.place / most_tables] = cell.value;
  }
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
