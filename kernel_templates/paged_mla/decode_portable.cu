// Paged MLA decode without tensor cores: persistent blocks, each a row tile of one share of the batch's keys. paged_mla/partition.cuh draws
// the shares; mla/attention_portable.cuh has the attention.
#include "common/dependent_launch.cuh"
#include "kernwright/specialisation.cuh"
#include "mla/attention_portable.cuh"
#include "paged_mla/decode_share.cuh"

namespace kw::paged_mla {

struct PortableAttention {
  mla::SharedParts shared;
  mla::RunningRows running;

  explicit KW_INLINE PortableAttention(unsigned char* bytes) : shared(bytes) {}

  KW_INLINE void attend(const RequestRows& rows, const PagedKeys& keys, float scale_log2) {
    mla::attend(rows, keys, scale_log2, shared, running);
  }
  KW_INLINE void store(const RequestRows& rows) const { mla::store_rows(rows, shared, running); }

  KW_INLINE void store_partial(const RequestRows& rows, const PartialRows& to) const {
    mla::share_row_scales(shared, running,
                          [&](int r, float reference, float sum) { return to.finish(r, reference, sum, !rows.padding(r)); });
    KW_UNROLL
    for (int r = 0; r < mla::block_m; ++r) {
      if (rows.padding(r)) continue;
      const float factor = shared.row_factor[r];
      const bool empty = shared.row_empty[r] != 0.0f;
      float* out = to.output(r) + static_cast<int>(threadIdx.x) * 2 * mla::words;
      KW_UNROLL
      for (int c = 0; c < 2 * mla::words; ++c) out[c] = empty ? 0.0f : running.output[r][c] * factor;
    }
  }
};

}  // namespace kw::paged_mla

extern "C" __global__ void __launch_bounds__(kw::mla::layout.threads, kw::paged_mla::resident_blocks(kw::tile, kw::mla::layout))
    kw_paged_mla_decode(const __grid_constant__ kw::paged_mla::DecodeParams params) {
  if (params.sequences.batch == 0) return;
  kw::wait_for_previous_kernel();  // it may have written the lengths, the table, the rows
  kw::launch_dependents();         // behind that: the merge reads the lengths at once, and waits for what this kernel writes
  kw::paged_mla::work_on_share<kw::paged_mla::PortableAttention>(params);
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
