// The check must see one faulty row. Each test computes an output on its own, spoils it, and wants red.
#include "support/sparse_mla_check.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "support/index_walk.hpp"
#include "support/random.hpp"
#include "unit/tools/kernel_like_attention.hpp"

using namespace kernwright;
using namespace kernwright::support;

namespace {

constexpr std::int64_t kHeads = 8, kQk = 576, kV = 512;

/// The last tokens of a walk, with what a correct kernel answers.
struct Problem {
  Walk walk;
  std::vector<Bf16> q, kv;
  float scale;
  std::vector<Bf16> out;
  std::vector<float> lse, max_logits;

  explicit Problem(std::int64_t topk, float deviation = 1) : scale(1 / std::sqrt(static_cast<float>(kQk))) {
    walk = make_walk({.tokens = 4, .topk = topk, .kv_rows = topk + topk / 4 + 8, .churn = 0.1, .seed = 5}).value();
    q = random_normal_bf16(walk.tokens * kHeads * kQk, 3, 1, deviation);
    kv = random_normal_bf16(walk.kv_rows * kQk, 3, 2);
    out.resize(static_cast<std::size_t>(walk.tokens * kHeads * kV));
    lse.resize(static_cast<std::size_t>(walk.tokens * kHeads));
    max_logits.resize(lse.size());
    for (std::int64_t token = 0; token < walk.tokens; ++token) compute(token, rows_of(token));
  }
  [[nodiscard]] std::vector<std::int32_t> rows_of(std::int64_t token) const {
    std::vector<std::int32_t> rows(walk.indices.begin() + token * walk.topk, walk.indices.begin() + (token + 1) * walk.topk);
    std::ranges::sort(rows);
    return rows;
  }
  /// Writes one token's answer for a list of rows that may be a wrong one.
  void compute(std::int64_t token, std::span<const std::int32_t> rows) {
    for (std::int64_t head = 0; head < kHeads; ++head) {
      const auto row = static_cast<std::size_t>(token * kHeads + head);
      const tests::AttentionRow answer = tests::kernel_like_attention(std::span(q).subspan(row * kQk, kQk), kv, kV, rows, scale);
      std::ranges::copy(answer.out, out.begin() + static_cast<std::ptrdiff_t>(row * kV));
      lse[row] = answer.lse;
      max_logits[row] = answer.max_logit;
    }
  }
  [[nodiscard]] SparseMlaReference reference() const {
    const SparseMlaProblem problem{.tokens = walk.tokens,
                                   .heads = kHeads,
                                   .kv_rows = walk.kv_rows,
                                   .topk = walk.topk,
                                   .q = q,
                                   .kv = kv,
                                   .indices = walk.indices,
                                   .topk_length = {},
                                   .attn_sink = {},
                                   .sm_scale = scale};
    return sparse_mla_reference(problem, checked_tokens(walk.tokens, 8, 1), RepeatedPositions::once);
  }
  [[nodiscard]] SparseMlaOutput output() const { return {out, lse, max_logits}; }
};

double global_cosine(const SparseMlaReference& reference, std::span<const Bf16> out) {
  double dot = 0, a = 0, b = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto want = static_cast<double>(reference.out[i]);
    const auto got = static_cast<double>(bf16_to_float(out[i]));
    dot += want * got;
    a += want * want;
    b += got * got;
  }
  return dot / std::sqrt(a * b);
}

}  // namespace

TEST_CASE("check: a correct output passes, at every K and with steep logits") {
  for (const std::int64_t topk : {1, 5, 64, 100, 2048}) {
    for (const float deviation : {1.0F, 6.0F}) {
      const Problem problem(topk, deviation);
      const SparseMlaCheck check = check_sparse_mla(problem.reference(), problem.output());
      CAPTURE(topk);
      CAPTURE(deviation);
      CHECK_MESSAGE(check.passed, check.first_failure);
      CHECK(check.rows == problem.walk.tokens * kHeads);
      CHECK(check.worst_row_cosine > 0.99999);
      CHECK(check.bound_violations == 0);
      CHECK(check.lse_max_abs < 2e-5);
      if (topk == 1) continue;  // The output is the row itself, to the bit.
      // The figures are of a real comparison: rounding is there.
      CHECK(check.worst_row_rel_l2 > 1e-4);
      CHECK(check.worst_row_rel_l2 < 1e-2);
      CHECK(check.worst_bound_ratio > 0.01);
    }
  }
}

TEST_CASE("check: one token's row doubled, dropped or flipped, or its tail skipped, is red at every K up to 2048") {
  for (const std::int64_t topk : {5, 64, 100, 512, 2048}) {
    const Problem correct(topk);
    const SparseMlaReference reference = correct.reference();
    const std::int64_t token = 2;
    const std::vector<std::int32_t> rows = correct.rows_of(token);
    const std::set<std::int32_t> own(rows.begin(), rows.end());
    const auto place = static_cast<std::ptrdiff_t>(rows.size() / 2);

    std::vector<std::int32_t> doubled = rows;
    doubled.insert(doubled.begin() + place, rows[static_cast<std::size_t>(place)]);
    std::vector<std::int32_t> dropped = rows;
    dropped.erase(dropped.begin() + place);
    // A mask bit of the group's union flipped: a row that only a neighbour selected comes in.
    std::vector<std::int32_t> flipped = rows;
    for (std::int32_t row = 0; row < correct.walk.kv_rows; ++row) {
      if (!own.contains(row)) {
        flipped.push_back(row);
        break;
      }
    }
    REQUIRE(flipped.size() == rows.size() + 1);
    std::vector<std::int32_t> without_tail = rows;
    without_tail.resize((rows.size() - 1) / 64 * 64);

    for (const auto& [name, wrong] : {std::pair{"a row doubled", doubled},
                                      {"a row dropped", dropped},
                                      {"a mask bit flipped", flipped},
                                      {"the tail skipped", without_tail}}) {
      CAPTURE(topk);
      CAPTURE(name);
      Problem problem = correct;
      problem.compute(token, wrong);
      const SparseMlaCheck check = check_sparse_mla(reference, problem.output());
      CHECK_FALSE(check.passed);
      CHECK(check.lse_worst_at.token == token);
      CHECK(check.first_failure.find("token 2") != std::string::npos);
    }
  }
}

TEST_CASE("check: a doubled row that hides in the global cosine is red") {
  Problem problem(2048);
  const SparseMlaReference reference = problem.reference();
  std::vector<std::int32_t> rows = problem.rows_of(1);
  rows.push_back(rows[7]);
  problem.compute(1, rows);
  CHECK(global_cosine(reference, problem.out) > 0.9999);
  CHECK_FALSE(check_sparse_mla(reference, problem.output()).passed);
}

TEST_CASE("check: the element bound is 2^-8 of the reference and of the sum of weighted magnitudes") {
  // One row: ref 1, sum p|v| 3, so 4 / 256 is legal.
  SparseMlaReference reference;
  reference.tokens = {0};
  reference.heads = 1;
  reference.d_v = 2;
  reference.out = {1, 64};
  reference.magnitude = {3, 64};
  reference.lse = {0};
  reference.max_logit = {0};
  const auto check = [&](float first) {
    const std::vector<Bf16> out{float_to_bf16(first), float_to_bf16(64)};
    return check_sparse_mla(reference, {out, {}, {}});
  };
  CHECK(check(1 + 4.0F / 256).passed);
  CHECK(check(1 + 4.0F / 256).worst_bound_ratio == 1);
  const SparseMlaCheck above = check(1 + 6.0F / 256);
  CHECK_FALSE(above.passed);
  CHECK(above.bound_violations == 1);
  CHECK(above.worst_bound_ratio == doctest::Approx(1.5));
  CHECK(above.worst_row_cosine > kRowCosineLimit);
  CHECK(check(std::numeric_limits<float>::quiet_NaN()).bound_violations == 1);
  CHECK_FALSE(check(std::numeric_limits<float>::quiet_NaN()).passed);
  CHECK_FALSE(check(std::numeric_limits<float>::infinity()).passed);
}

TEST_CASE("check: the row cosine alone turns it red") {
  SparseMlaReference reference;
  reference.tokens = {3};
  reference.heads = 1;
  reference.d_v = 2;
  reference.out = {1, 0.01F};
  reference.magnitude = {1000, 1000};
  reference.lse = {0};
  reference.max_logit = {0};
  const auto cosine_check = [&](float second) {
    std::vector<Bf16> out(8);
    out[6] = float_to_bf16(1);
    out[7] = float_to_bf16(second);
    return check_sparse_mla(reference, {out, {}, {}});
  };
  CHECK(cosine_check(0.01F).passed);
  const SparseMlaCheck off = cosine_check(0.03125F);  // cos = (1 + 0.0003125) / sqrt(1.0001 × 1.0009766) = 0.99977
  CHECK_FALSE(off.passed);
  CHECK(off.bound_violations == 0);
  CHECK(off.worst_row_cosine == doctest::Approx(0.999774).epsilon(1e-6));
  CHECK(off.worst_row_cosine_at.token == 3);
}

TEST_CASE("check: rows of zeros") {
  SparseMlaReference reference;
  reference.tokens = {0};
  reference.heads = 1;
  reference.d_v = 2;
  reference.out = {0, 0};
  reference.magnitude = {0, 0};
  reference.lse = {std::numeric_limits<double>::infinity()};
  reference.max_logit = {-std::numeric_limits<double>::infinity()};
  const float infinity = std::numeric_limits<float>::infinity();
  const auto check = [&](float value, float lse, float max_logit) {
    const std::vector<Bf16> out{0, float_to_bf16(value)};
    const std::vector<float> lses{lse}, max_logits{max_logit};
    return check_sparse_mla(reference, {out, lses, max_logits});
  };
  CHECK(check(0, infinity, -infinity).passed);
  CHECK(check(0, infinity, -infinity).worst_row_cosine == 1);
  CHECK(check(0, infinity, -infinity).lse_max_abs == 0);
  const SparseMlaCheck not_zero = check(0.001F, infinity, -infinity);
  CHECK_FALSE(not_zero.passed);
  CHECK(not_zero.worst_row_cosine == 0);
  CHECK(std::isinf(not_zero.worst_row_rel_l2));
  CHECK_FALSE(check(0, -infinity, -infinity).passed);
  CHECK_FALSE(check(0, infinity, -1e30F).passed);
  CHECK_FALSE(check(0, std::numeric_limits<float>::quiet_NaN(), -infinity).passed);
}

TEST_CASE("check: an infinite element must be that infinity, one that is not a number any value that is not finite") {
  SparseMlaReference reference;
  reference.tokens = {0};
  reference.heads = 1;
  reference.d_v = 2;
  reference.magnitude = {1, 1};
  reference.lse = {0};
  reference.max_logit = {0};
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto violations = [&](float want, float got) {
    reference.out = {1, want};
    const std::vector<Bf16> out{float_to_bf16(1), float_to_bf16(got)};
    return check_sparse_mla(reference, {out, {}, {}}).bound_violations;
  };
  CHECK(violations(infinity, infinity) == 0);
  CHECK(violations(-infinity, -infinity) == 0);
  CHECK(violations(infinity, -infinity) == 1);
  CHECK(violations(infinity, nan) == 1);
  CHECK(violations(infinity, 3) == 1);
  CHECK(violations(nan, nan) == 0);
  CHECK(violations(nan, infinity) == 0);
  CHECK(violations(nan, 3) == 1);
}

TEST_CASE("check: lse and max_logits are held to 1e-4, each") {
  Problem problem(64);
  const SparseMlaReference reference = problem.reference();
  problem.lse[9] += 2e-4F;
  SparseMlaCheck check = check_sparse_mla(reference, problem.output());
  CHECK_FALSE(check.passed);
  CHECK(check.lse_worst_at.token == 1);
  CHECK(check.lse_worst_at.head == 1);
  CHECK(check.first_failure.find("lse") != std::string::npos);
  problem.lse[9] -= 2e-4F;
  CHECK(check_sparse_mla(reference, problem.output()).passed);
  problem.max_logits[31] -= 2e-4F;
  check = check_sparse_mla(reference, problem.output());
  CHECK_FALSE(check.passed);
  CHECK(check.first_failure.find("max_logits") != std::string::npos);
  CHECK(check_sparse_mla(reference, {problem.out, problem.lse, {}}).passed);
}

TEST_CASE("check: not-a-number where the reference is one is right, elsewhere wrong") {
  Problem problem(64);
  problem.kv[static_cast<std::size_t>(problem.rows_of(0)[3]) * kQk + 1] = 0x7fc0;
  for (std::int64_t token = 0; token < 4; ++token) problem.compute(token, problem.rows_of(token));
  const SparseMlaReference reference = problem.reference();
  CHECK(std::isnan(reference.out[1]));
  CHECK(check_sparse_mla(reference, {problem.out, {}, {}}).passed);
  std::ranges::fill_n(problem.out.begin(), kV, Bf16{0});
  CHECK_FALSE(check_sparse_mla(reference, {problem.out, {}, {}}).passed);
}
