// What is written of a finished row of the running softmax (mla/softmax.cuh).
#pragma once

#include "common/math.cuh"
#include "common/types.cuh"
#include "mla/softmax.cuh"
#include "sparse_mla/prefill_rows.cuh"

namespace kw::sparse_mla {

using mla::RowScale;

/// `sum` is of 2^(s − reference); `largest` is the largest s. Writes lse and max_logits where they are asked for; only one thread may have
/// `writes` for a row. The sink joins the denominator of the output only: out / (1 + exp(sink − lse)).
KW_INLINE RowScale finish_row(const PrefillParams& params, const Row& row, float reference, float sum, float largest, bool writes) {
  if (row.padding) return {0.0f, true};
  const bool empty = sum == 0.0f;
  const float lse_log2 = reference + log2_approx(sum);
  if (writes) {
    const i64 at = row.token * specialisation.heads + row.head;
    if (params.lse != nullptr) params.lse[at] = empty ? infinity : lse_log2 * log_2;
    if (params.max_logits != nullptr) params.max_logits[at] = empty ? -infinity : largest * log_2;
  }
  float factor = 1.0f / sum;
  if (params.attn_sink != nullptr) factor *= 1.0f / (1.0f + exp2_approx(params.attn_sink[row.head] * log2_e - lse_log2));
  return {factor, empty};
}

/// A block's rows as mla/attention_mma.cuh asks for them: their running maximum never lags, so the reference is the largest score.
struct PrefillRows {
  const PrefillParams& params;
  const BlockRows& block;

  static KW_INLINE int token(int r) { return BlockRows::token_in_group(r); }
  KW_INLINE bool padding(int r) const { return block.row(r).padding; }
  KW_INLINE const unsigned char* query(int r) const {
    const Row row = block.row(r);
    return row.padding ? static_cast<const unsigned char*>(params.q) : query_row(params, row);
  }
  KW_INLINE unsigned char* output(int r) const { return output_row(params, block.row(r)); }
  KW_INLINE RowScale finish(int r, float reference, float sum, bool writes) const {
    return finish_row(params, block.row(r), reference, sum, reference, writes);
  }
};

}  // namespace kw::sparse_mla
