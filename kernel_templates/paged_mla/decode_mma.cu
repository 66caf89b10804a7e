// Paged MLA decode on mma.sync tensor cores: persistent blocks, each a row tile of one share of the batch's keys. paged_mla/partition.cuh
// draws the shares; mla/attention_mma.cuh has the attention.
#include "common/dependent_launch.cuh"
#include "kernwright/specialisation.cuh"
#include "mla/attention_mma.cuh"
#include "paged_mla/decode_share.cuh"

namespace kw::paged_mla {

struct MmaAttention {
  mla::SharedParts shared;
  mla::WarpPlace warp = mla::warp_place();
  mla::RunningRows running;

  explicit KW_INLINE MmaAttention(unsigned char* bytes) : shared(bytes) {}

  KW_INLINE void attend(const RequestRows& rows, const PagedKeys& keys, float scale_log2) {
    mla::attend(rows, keys, scale_log2, warp, shared, running);
  }
  KW_INLINE void store(const RequestRows& rows) const { mla::store_rows(rows, warp, shared, running); }

  /// A row's columns go out as the accumulators hold them: the four lanes of a row write 32 bytes together.
  KW_INLINE void store_partial(const RequestRows& rows, const PartialRows& to) const {
    KW_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int row = warp.row + 8 * r;
      if (rows.padding(row)) continue;
      const mla::RowScale scale = to.finish(row, running.max_log2[r], running.sum[r], warp.n == 0 && warp.pair == 0);
      float* out = to.output(row) + warp.n * 2 * mla::column_pairs * 8 + warp.pair * 2;
      KW_UNROLL
      for (int j = 0; j < 2 * mla::column_pairs; ++j) {
        const float low = scale.empty ? 0.0f : running.output[j][2 * r] * scale.factor;
        const float high = scale.empty ? 0.0f : running.output[j][2 * r + 1] * scale.factor;
        store_vector(out + j * 8, Vec8{{__builtin_bit_cast(u32, low), __builtin_bit_cast(u32, high)}});
      }
    }
  }
};

}  // namespace kw::paged_mla

extern "C" __global__ void __launch_bounds__(kw::mla::layout.threads, kw::paged_mla::resident_blocks(kw::tile, kw::mla::layout))
    kw_paged_mla_decode(const __grid_constant__ kw::paged_mla::DecodeParams params) {
  if (params.sequences.batch == 0) return;
  kw::wait_for_previous_kernel();  // it may have written the lengths, the table, the rows
  kw::launch_dependents();         // behind that: the merge reads the lengths at once, and waits for what this kernel writes
  kw::paged_mla::work_on_share<kw::paged_mla::MmaAttention>(params);
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
