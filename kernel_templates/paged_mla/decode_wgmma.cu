// Paged MLA decode on Hopper's warpgroup products (sm_90a): mla/wgmma_attention.cuh, for a row tile of one share of the batch's keys.
// paged_mla/partition.cuh draws the shares.
#include "common/dependent_launch.cuh"
#include "kernwright/specialisation.cuh"
#include "mla/wgmma_attention.cuh"
#include "paged_mla/decode_work.cuh"

extern "C" __global__ void __launch_bounds__(kw::mla::block_threads, 1)
    kw_paged_mla_decode(const __grid_constant__ kw::paged_mla::DecodeParams params) {
  using namespace kw;
  if (params.sequences.batch == 0) return;
  const mla::Shared shared = mla::prepare_shared();
  wait_for_previous_kernel();  // it may have written the lengths, the table, the rows
  launch_dependents();         // behind that: the merge reads the lengths at once, and waits for what this kernel writes
  mla::attend(paged_mla::DecodeWork<mla::Shared>(params, shared), shared);
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
