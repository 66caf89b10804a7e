#include "support/sparse_mla_reference.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "support/index_walk.hpp"
#include "support/random.hpp"

using namespace kernwright;
using namespace kernwright::support;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<Bf16> bf16(std::initializer_list<float> values) {
  std::vector<Bf16> bits;
  for (const float value : values) bits.push_back(float_to_bf16(value));
  return bits;
}

/// Two tokens of one head and two dimensions over three rows. Every number is exact in bfloat16.
struct TinyCase {
  std::vector<Bf16> q = bf16({1, 0, 0, 2});
  std::vector<Bf16> kv = bf16({0, 5, 1, 0.5F, -3, 0.25F});
  std::vector<std::int32_t> indices{1, -1, 0, 0, 3, 99};
  std::vector<std::int32_t> topk_length;
  std::vector<float> sink;
  [[nodiscard]] SparseMlaReference run(RepeatedPositions repeated = RepeatedPositions::each) const {
    const SparseMlaProblem problem{.tokens = 2,
                                   .heads = 1,
                                   .kv_rows = 3,
                                   .topk = 3,
                                   .d_qk = 2,
                                   .d_v = 1,
                                   .q = q,
                                   .kv = kv,
                                   .indices = indices,
                                   .topk_length = topk_length,
                                   .attn_sink = sink,
                                   .sm_scale = 1};
    return sparse_mla_reference(problem, std::array<std::int64_t, 2>{0, 1}, repeated);
  }
};

}  // namespace

TEST_CASE("reference: a case worked out by hand") {
  // Token 0: rows 1 and 0, logits 1 and 0, values 1 and 0. e / (1 + e) = 0.731058578630005; log(1 + e) = 1.313261687518223.
  // Token 1: row 0 alone, logit 10, value 0.
  const SparseMlaReference reference = TinyCase().run();
  CHECK(reference.out[0] == doctest::Approx(0.731058578630005).epsilon(1e-7));
  CHECK(reference.magnitude[0] == doctest::Approx(0.731058578630005).epsilon(1e-7));
  CHECK(reference.lse[0] == doctest::Approx(1.313261687518223).epsilon(1e-12));
  CHECK(reference.max_logit[0] == 1);
  CHECK(reference.out[1] == 0);
  CHECK(reference.lse[1] == 10);
  CHECK(reference.max_logit[1] == 10);
}

TEST_CASE("reference: the sink joins the denominator only") {
  TinyCase tiny;
  tiny.sink = {1.3132616875F};  // As heavy as everything else together: it halves the output.
  CHECK(tiny.run().out[0] == doctest::Approx(0.3655292893).epsilon(1e-6));
  CHECK(tiny.run().magnitude[0] == doctest::Approx(0.3655292893).epsilon(1e-6));
  CHECK(tiny.run().lse[0] == doctest::Approx(1.313261687518223));
  tiny.sink = {-kInfinity};
  CHECK(tiny.run().out[0] == doctest::Approx(0.731058578630005));
  tiny.sink = {kInfinity};
  CHECK(tiny.run().out[0] == 0);
}

TEST_CASE("reference: topk_length cuts the list and is clamped") {
  TinyCase tiny;
  tiny.topk_length = {1, 99};
  CHECK(tiny.run().out[0] == 1);
  CHECK(tiny.run().lse[0] == 1);
  CHECK(tiny.run().lse[1] == 10);
  tiny.topk_length = {-7, 0};
  for (const std::size_t token : {0U, 1U}) {
    CHECK(tiny.run().out[token] == 0);
    CHECK(tiny.run().lse[token] == std::numeric_limits<double>::infinity());
    CHECK(tiny.run().max_logit[token] == -std::numeric_limits<double>::infinity());
  }
  tiny.sink = {kInfinity};
  CHECK(tiny.run().out[0] == 0);  // Not 0 × NaN.
}

TEST_CASE("reference: a repeated position weighs once or each time, as asked") {
  TinyCase tiny;
  tiny.indices = {1, 0, 1, 0, 0, 0};
  // Twice e against 1: 2e / (2e + 1) = 0.8446375965.
  CHECK(tiny.run(RepeatedPositions::each).out[0] == doctest::Approx(0.8446375965030364));
  CHECK(tiny.run(RepeatedPositions::once).out[0] == doctest::Approx(0.731058578630005));
  CHECK(tiny.run(RepeatedPositions::each).lse[1] == doctest::Approx(10 + std::log(3)));
  CHECK(tiny.run(RepeatedPositions::once).lse[1] == 10);
}

TEST_CASE("reference: rows that nobody selects are not read") {
  TinyCase tiny;
  tiny.kv[4] = 0x7fc0;  // NaN in row 2
  tiny.kv[5] = 0x7f80;  // inf
  CHECK(tiny.run().out[0] == doctest::Approx(0.731058578630005));
  tiny.indices[1] = 2;
  CHECK(std::isnan(tiny.run().out[0]));
  CHECK(tiny.run().out[1] == 0);
}

TEST_CASE("reference: agrees with the textbook formula in long double") {
  constexpr std::int64_t kTokens = 40, kHeads = 3, kTopk = 21, kQk = 576, kV = 512;
  const Walk walk = make_walk({.tokens = kTokens, .topk = kTopk, .churn = 0.2}).value();
  const std::vector<Bf16> q = random_normal_bf16(kTokens * kHeads * kQk, 1, 1, 2);
  const std::vector<Bf16> kv = random_normal_bf16(kTokens * kQk, 1, 2);
  const std::vector<float> sink{0.5F, -1, 3};
  const float scale = 1 / std::sqrt(576.0F);
  const SparseMlaProblem problem{.tokens = kTokens,
                                 .heads = kHeads,
                                 .kv_rows = kTokens,
                                 .topk = kTopk,
                                 .q = q,
                                 .kv = kv,
                                 .indices = walk.indices,
                                 .topk_length = {},
                                 .attn_sink = sink,
                                 .sm_scale = scale};
  const std::vector<std::int64_t> tokens{0, 5, 20, 39};
  const SparseMlaReference reference = sparse_mla_reference(problem, tokens, RepeatedPositions::once);
  for (std::size_t r = 0; r < tokens.size(); ++r) {
    for (std::int64_t h = 0; h < kHeads; ++h) {
      // Weights without subtracting a maximum: exp fits a long double easily.
      long double denominator = 0;
      std::vector<long double> out(kV), magnitude(kV);
      for (std::int64_t slot = 0; slot < kTopk; ++slot) {
        const std::int32_t row = walk.indices[static_cast<std::size_t>(tokens[r] * kTopk + slot)];
        if (row < 0) continue;
        long double logit = 0;
        for (std::int64_t d = 0; d < kQk; ++d) {
          logit += static_cast<long double>(bf16_to_float(q[static_cast<std::size_t>((tokens[r] * kHeads + h) * kQk + d)])) *
                   static_cast<long double>(bf16_to_float(kv[static_cast<std::size_t>(row * kQk + d)]));
        }
        const long double weight = std::exp(logit * static_cast<long double>(scale));
        denominator += weight;
        for (std::int64_t d = 0; d < kV; ++d) {
          const auto value = static_cast<long double>(bf16_to_float(kv[static_cast<std::size_t>(row * kQk + d)]));
          out[static_cast<std::size_t>(d)] += weight * value;
          magnitude[static_cast<std::size_t>(d)] += weight * std::abs(value);
        }
      }
      const std::size_t row = r * kHeads + static_cast<std::size_t>(h);
      CHECK(reference.lse[row] == doctest::Approx(static_cast<double>(std::log(denominator))).epsilon(1e-6));
      const long double with_sink = denominator + std::exp(static_cast<long double>(sink[static_cast<std::size_t>(h)]));
      double worst = 0;
      for (std::size_t d = 0; d < kV; ++d) {
        const double bound = static_cast<double>(magnitude[d] / with_sink);
        worst =
            std::max(worst, std::abs(static_cast<double>(reference.out[row * kV + d]) - static_cast<double>(out[d] / with_sink)) / bound);
        worst = std::max(worst, std::abs(static_cast<double>(reference.magnitude[row * kV + d]) - bound) / bound);
      }
      CHECK(worst < 1e-5);
    }
  }
}

TEST_CASE("reference: the tokens looked at are all of a small problem, and ends and samples of a large one") {
  std::vector<std::int64_t> all(592);
  std::iota(all.begin(), all.end(), 0);
  CHECK(checked_tokens(592, 8, 1) == all);
  CHECK(checked_tokens(0, 8, 1).empty());
  const std::vector<std::int64_t> some = checked_tokens(100'003, 8, 1);
  CHECK(some.size() == 64 + 16 + 512);
  CHECK(std::ranges::is_sorted(some));
  CHECK(std::ranges::adjacent_find(some) == some.end());
  CHECK(some[63] == 63);
  CHECK(some[some.size() - 16] == 100'003 - 16);
  CHECK(some.back() == 100'002);
  CHECK(some[64 + 256] > 30'000);
  CHECK(some[64 + 256] < 70'000);
  CHECK(checked_tokens(100'003, 8, 2) != some);
  CHECK(checked_tokens(593, 8, 1).size() == 592);
}
