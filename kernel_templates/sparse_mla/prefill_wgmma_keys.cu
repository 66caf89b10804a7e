// Sparse MLA prefill of one token at a time on Hopper's warpgroup products (sm_90a): mla/wgmma_keys_attention.cuh, for the rows that a
// token selects.
#include "common/dependent_launch.cuh"
#include "kernwright/specialisation.cuh"
#include "mla/wgmma_keys_attention.cuh"
#include "sparse_mla/prefill_work.cuh"

extern "C" __global__ void __launch_bounds__(kw::sparse_mla::layout.threads, 1)
    kw_sparse_mla_prefill(const __grid_constant__ kw::sparse_mla::PrefillParams params) {
  using namespace kw;
  if (params.tokens == 0) return;
  const mla::Shared shared = mla::prepare_shared();
  wait_for_previous_kernel();
  mla::attend(sparse_mla::PrefillWork(params), shared);
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
