// The running softmax of a row, in base 2, and what is written of it.
//
// A score is s = (q · k) · sm_scale · log2 e, scaled before the maximum is taken, so that a negative sm_scale works; −inf where the row's
// token does not attend to the key. For each tile of keys
//
//   m' = max(m, s)      α = 2^(m − m')      p = 2^(s − m')      l = l · α + Σ p      out = out · α + round_to_bf16(p) · v
//
// m begins at the smallest finite fp32, not at −inf: a tile without a key of the row leaves α = 2^0 and p = 2^-inf = 0, never NaN.
// l sums p as fp32, before the rounding that P·V needs. bf16 rounds with a relative error of at most 2^-8, so the output is off by at most
// 2^-8 · Σ p |v| from P and 2^-8 · |out| from its own rounding: what docs/kernels.md allows. Summing the rounded p instead would put a
// second 2^-8 · |out| on top, and would put lse off by up to 2^-8 where it must hold to 1e-4.
#pragma once

#include "common/math.cuh"
#include "common/types.cuh"
#include "sparse_mla/prefill_rows.cuh"

namespace kw::sparse_mla {

inline constexpr float initial_max = -largest_float;

KW_INLINE float masked_score(float product, float scale_log2, bool owned) {
  return owned ? product * scale_log2 : -infinity;
}

/// What a finished row's output is multiplied by, and whether the row attended to nothing: then its output is 0 whatever it holds.
struct RowScale {
  float factor;
  bool empty;
};

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

}  // namespace kw::sparse_mla
