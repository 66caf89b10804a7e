#include "support/sparse_mla_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kernwright::support {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// 2⁻¹¹⁸: below it a bfloat16 has fewer than its 8 bits, or none.
constexpr double kTooSmall = 0x1p-118;

struct RowFigures {
  double cosine = 1;
  double rel_l2 = 0;
  double bound_ratio = 0;
  std::int64_t violations = 0;
};

RowFigures compare_row(std::span<const float> reference, std::span<const float> magnitude, std::span<const Bf16> out) {
  RowFigures figures;
  double dot = 0;
  double reference_norm = 0;
  double out_norm = 0;
  double difference_norm = 0;
  double largest = 0;
  bool finite = true;
  for (std::size_t d = 0; d < reference.size(); ++d) {
    const double want = static_cast<double>(reference[d]);
    const double got = static_cast<double>(bf16_to_float(out[d]));
    if (!std::isfinite(want) || !std::isfinite(got)) {
      finite = false;
      // An infinity must be that infinity; what is not a number may be any value that is not finite.
      if (std::isinf(want) ? got != want : std::isfinite(want) != std::isfinite(got)) {
        ++figures.violations;
        figures.bound_ratio = kInfinity;
      }
      continue;
    }
    const double difference = std::abs(got - want);
    const double bound = kElementBound * std::abs(want) + kElementBound * static_cast<double>(magnitude[d]);
    const double ratio = difference == 0 ? 0 : difference / bound;
    if (ratio > 1) ++figures.violations;
    figures.bound_ratio = std::max(figures.bound_ratio, ratio);
    dot += want * got;
    reference_norm += want * want;
    out_norm += got * got;
    difference_norm += difference * difference;
    largest = std::max(largest, std::abs(want));
  }
  if (!finite) {
    // A row with elements that are not finite has no direction; its elements were compared one by one above.
    if (figures.violations > 0) {
      figures.cosine = 0;
      figures.rel_l2 = kInfinity;
    }
    return figures;
  }
  figures.rel_l2 = difference_norm == 0 ? 0 : std::sqrt(difference_norm / reference_norm);
  if (largest >= kTooSmall) {
    figures.cosine = out_norm == 0 ? 0 : dot / std::sqrt(reference_norm * out_norm);
  } else {
    figures.cosine = figures.violations == 0 ? 1 : 0;
  }
  return figures;
}

/// |want − got| where equal infinities are 0 apart and a `got` that is not a number is infinitely far. A `want` that is not a number
/// comes from inputs that are not; nothing is promised then.
double distance(double want, float got) {
  if (std::isnan(want)) return 0;
  const double value = static_cast<double>(got);
  if (want == value) return 0;
  const double apart = std::abs(want - value);
  if (std::isnan(apart)) return kInfinity;
  return apart;
}

}  // namespace

SparseMlaCheck check_sparse_mla(const SparseMlaReference& reference, const SparseMlaOutput& output) {
  SparseMlaCheck check;
  const auto heads = static_cast<std::size_t>(reference.heads);
  const auto d_v = static_cast<std::size_t>(reference.d_v);
  const auto failed = [&](SparseMlaCheck::Row at, std::string what) {
    check.passed = false;
    if (check.first_failure.empty()) check.first_failure = fmt::format("token {}, head {}: {}", at.token, at.head, what);
  };
  for (std::size_t r = 0; r < reference.tokens.size(); ++r) {
    for (std::size_t h = 0; h < heads; ++h) {
      const SparseMlaCheck::Row at{reference.tokens[r], static_cast<std::int64_t>(h)};
      const std::size_t from = r * heads + h;
      const std::size_t to = static_cast<std::size_t>(reference.tokens[r]) * heads + h;
      const RowFigures row = compare_row(std::span(reference.out).subspan(from * d_v, d_v),
                                         std::span(reference.magnitude).subspan(from * d_v, d_v), output.out.subspan(to * d_v, d_v));
      ++check.rows;
      check.bound_violations += row.violations;
      if (row.cosine < check.worst_row_cosine) {
        check.worst_row_cosine = row.cosine;
        check.worst_row_cosine_at = at;
      }
      if (row.rel_l2 > check.worst_row_rel_l2) {
        check.worst_row_rel_l2 = row.rel_l2;
        check.worst_row_rel_l2_at = at;
      }
      if (row.bound_ratio > check.worst_bound_ratio) {
        check.worst_bound_ratio = row.bound_ratio;
        check.worst_bound_at = at;
      }
      if (row.violations > 0) {
        failed(at, fmt::format("{} elements are off by up to {:.3g} times the bound 2^-8 |ref| + 2^-8 sum p|v|", row.violations,
                               row.bound_ratio));
      }
      if (!(row.cosine >= kRowCosineLimit)) failed(at, fmt::format("row cosine {:.6f} is below {}", row.cosine, kRowCosineLimit));
      const auto check_scalar = [&](std::string_view name, double want, float got) {
        const double apart = distance(want, got);
        if (apart > check.lse_max_abs) {
          check.lse_max_abs = apart;
          check.lse_worst_at = at;
        }
        if (!(apart <= kLseLimit))
          failed(at, fmt::format("{} is {:.7g}, the reference says {:.7g}; {} apart is legal", name, got, want, kLseLimit));
      };
      if (!output.lse.empty()) check_scalar("lse", reference.lse[from], output.lse[to]);
      if (!output.max_logits.empty()) check_scalar("max_logits", reference.max_logit[from], output.max_logits[to]);
    }
  }
  return check;
}

}  // namespace kernwright::support
