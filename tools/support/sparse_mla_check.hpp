// Decides whether an output of sparse MLA prefill is right.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "support/bf16.hpp"
#include "support/sparse_mla_reference.hpp"

namespace kernwright::support {

/// The whole output as a kernel wrote it, for all T tokens.
struct SparseMlaOutput {
  std::span<const Bf16> out = {};          ///< [T, H, d_v]
  std::span<const float> lse = {};         ///< [T, H], or empty: not checked.
  std::span<const float> max_logits = {};  ///< [T, H], or empty: not checked.
};

inline constexpr double kRowCosineLimit = 0.9999;
inline constexpr double kElementBound = 1.0 / 256;  ///< 2⁻⁸, bfloat16's unit of the last place relative to 1.
inline constexpr double kLseLimit = 1e-4;

struct SparseMlaCheck {
  /// A (token, head) row, for messages; token −1: none.
  struct Row {
    std::int64_t token = -1;
    std::int64_t head = -1;
  };
  double worst_row_cosine = 1;  ///< Over the rows. Two rows of zeros are alike (1); one of zeros and one of others are not (0).
  Row worst_row_cosine_at;
  double worst_row_rel_l2 = 0;  ///< ‖out − ref‖ / ‖ref‖; infinite where only ref is zero. Reported, not judged.
  Row worst_row_rel_l2_at;
  std::int64_t bound_violations = 0;  ///< Elements with |out − ref| > 2⁻⁸·|ref| + 2⁻⁸·Σ p|v|.
  double worst_bound_ratio = 0;       ///< The largest |out − ref| over its bound.
  Row worst_bound_at;
  double lse_max_abs = 0;  ///< Over lse and max_logits; infinite where one is infinite or not a number and the other is not.
  Row lse_worst_at;
  std::int64_t rows = 0;  ///< (token, head) rows looked at.
  bool passed = true;
  std::string first_failure;  ///< What failed, where, by how much; empty where it passed.
};

/// For each (token, head) row of the reference: every element within 2⁻⁸·|ref| + 2⁻⁸·Σ p|v|, row cosine ≥ 0.9999, lse and max_logits within
/// 1e-4, equal infinities being equal. An infinite element must be that infinity; one that is not a number in the reference must not be
/// finite in the output. A row whose reference lies below the smallest normal bfloat16 times 256 counts as zeros for the cosine: its bits
/// are not there to compare. Per row, because one faulty row in thousands does not show in a mean; with lse, because a weight of 1 in 2,048
/// shows there first.
SparseMlaCheck check_sparse_mla(const SparseMlaReference& reference, const SparseMlaOutput& output);

}  // namespace kernwright::support
