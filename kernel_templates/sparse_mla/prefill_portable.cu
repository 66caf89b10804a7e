// Sparse MLA prefill without tensor cores: a (group, head tile) a block, over its list or its union of keys. mla/attention_portable.cuh has
// the attention.
#include "kernwright/specialisation.cuh"
#include "mla/attention_portable.cuh"
#include "sparse_mla/prefill_keys.cuh"
#include "sparse_mla/prefill_plan.cuh"
#include "sparse_mla/prefill_rows.cuh"
#include "sparse_mla/prefill_softmax.cuh"

extern "C" __global__ void __launch_bounds__(kw::sparse_mla::layout.threads)
    kw_sparse_mla_prefill(const __grid_constant__ kw::sparse_mla::PrefillParams params) {
  using namespace kw;
  if (params.tokens == 0) return;
  const sparse_mla::BlockRows block = sparse_mla::block_rows(params, blockIdx.x);
  const sparse_mla::PrefillRows rows{params, block};
  const sparse_mla::PrefillKeys keys(params, block);
  const mla::SharedParts shared(dynamic_shared());
  mla::RunningRows running;
  mla::attend(rows, keys, params.sm_scale * log2_e, shared, running);
  mla::store_rows(rows, shared, running);
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
