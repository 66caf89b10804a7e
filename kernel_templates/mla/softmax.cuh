// The running softmax of a row, in base 2.
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

namespace kw::mla {

inline constexpr float initial_max = -largest_float;

KW_INLINE float masked_score(float product, float scale_log2, bool owned) {
  return owned ? product * scale_log2 : -infinity;
}

/// What a finished row's output is multiplied by, and whether the row attended to nothing: then its output is 0 whatever it holds.
struct RowScale {
  float factor;
  bool empty;
};

}  // namespace kw::mla
