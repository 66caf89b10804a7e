// One (token, head) row the way a kernel computes it: blocks of keys, an online softmax in float, P rounded to bfloat16, fp32 sums. Written
// apart from the reference on purpose: it takes a list of rows, so that a test can hand it a wrong one.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "support/bf16.hpp"

namespace kernwright::tests {

struct AttentionRow {
  std::vector<support::Bf16> out;
  float lse = std::numeric_limits<float>::infinity();
  float max_logit = -std::numeric_limits<float>::infinity();
};

inline AttentionRow kernel_like_attention(std::span<const support::Bf16> q, std::span<const support::Bf16> kv, std::size_t d_v,
                                          std::span<const std::int32_t> rows, float sm_scale, const float* sink = nullptr) {
  using support::bf16_to_float;
  constexpr std::size_t kBlock = 64;
  AttentionRow answer;
  answer.out.assign(d_v, 0);
  if (rows.empty()) return answer;
  float running_max = -std::numeric_limits<float>::infinity();
  float sum = 0;
  std::vector<float> accumulator(d_v, 0.0F);
  for (std::size_t first = 0; first < rows.size(); first += kBlock) {
    const auto block = rows.subspan(first, std::min(kBlock, rows.size() - first));
    std::vector<float> logits;
    float block_max = running_max;
    for (const std::int32_t row : block) {
      float logit = 0;
      for (std::size_t d = 0; d < q.size(); ++d) {
        logit = std::fma(bf16_to_float(q[d]), bf16_to_float(kv[static_cast<std::size_t>(row) * q.size() + d]), logit);
      }
      logits.push_back(logit * sm_scale);
      block_max = std::max(block_max, logits.back());
    }
    const float rescale = std::exp(running_max - block_max);
    sum *= rescale;
    for (float& value : accumulator) value *= rescale;
    for (std::size_t i = 0; i < block.size(); ++i) {
      const float p = std::exp(logits[i] - block_max);
      sum += p;
      const float rounded = bf16_to_float(support::float_to_bf16(p));
      for (std::size_t d = 0; d < d_v; ++d)
        accumulator[d] += rounded * bf16_to_float(kv[static_cast<std::size_t>(block[i]) * q.size() + d]);
    }
    running_max = block_max;
  }
  answer.max_logit = running_max;
  answer.lse = running_max + std::log(sum);
  const float factor = sink == nullptr ? 1.0F : 1.0F / (1.0F + std::exp(*sink - answer.lse));
  for (std::size_t d = 0; d < d_v; ++d) answer.out[d] = support::float_to_bf16(accumulator[d] / sum * factor);
  return answer;
}

}  // namespace kernwright::tests
