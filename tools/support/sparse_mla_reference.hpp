// The reference for sparse MLA prefill: the definition, token by token, on the CPU. It shares nothing with the kernels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "support/bf16.hpp"

namespace kernwright::support {

/// The inputs, all dense and row-major in host memory. Sizes must agree; nothing here checks them.
struct SparseMlaProblem {
  std::int64_t tokens = 0;   ///< T
  std::int64_t heads = 0;    ///< H
  std::int64_t kv_rows = 0;  ///< S
  std::int64_t topk = 0;     ///< K
  std::int64_t d_qk = 576;
  std::int64_t d_v = 512;
  std::span<const Bf16> q = {};                    ///< [T, H, d_qk]
  std::span<const Bf16> kv = {};                   ///< [S, d_qk]; V is the first d_v columns.
  std::span<const std::int32_t> indices = {};      ///< [T, K]; below 0 or at or above S: an empty slot.
  std::span<const std::int32_t> topk_length = {};  ///< [T], clamped to [0, K], or empty: K.
  std::span<const float> attn_sink = {};           ///< [H], or empty: none.
  float sm_scale = 0;
};

enum class RepeatedPositions : std::uint8_t {
  once,  ///< A position that a token names several times weighs once: what union does.
  each,  ///< It weighs each time: what one token at a time does.
};

/// The answers for some tokens. Row r of every array belongs to tokens[r].
struct SparseMlaReference {
  std::vector<std::int64_t> tokens;
  std::int64_t heads = 0;
  std::int64_t d_v = 0;
  std::vector<float> out;         ///< [n, H, d_v]: softmax(scale · q kᵀ) · v, with the sink in the denominator.
  std::vector<float> magnitude;   ///< [n, H, d_v]: Σ p·|v| with the same weights p. What rounding errors are measured against.
  std::vector<double> lse;        ///< [n, H]: log Σ exp(logit), natural, without the sink; +inf where nothing is selected.
  std::vector<double> max_logit;  ///< [n, H]: -inf where nothing is selected.
};

/// Logits, softmax and sums as products in float, which hold a product of two bfloat16 exactly, collected in double. Nothing is rounded to
/// bfloat16. A token without a valid slot gives out 0 whatever the sink. Threaded over `tokens`, which must be in [0, T).
SparseMlaReference sparse_mla_reference(const SparseMlaProblem& problem, std::span<const std::int64_t> tokens, RepeatedPositions repeated);

/// The tokens that a check of T tokens looks at: all where there are at most 64 + 2·G + 512; otherwise the first 64, the last 2·G (at
/// least 2) and 512 random ones between, for G = max(group_size, 1). Ascending and distinct.
std::vector<std::int64_t> checked_tokens(std::int64_t tokens, std::int64_t group_size, std::uint64_t seed);

}  // namespace kernwright::support
