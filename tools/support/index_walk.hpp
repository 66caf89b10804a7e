// Generated index lists: a walk in which neighbouring tokens select nearly the same rows.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernwright/result.hpp"

namespace kernwright::support {

struct WalkOptions {
  std::int64_t tokens = 64;  ///< Of one request.
  std::int64_t batch = 1;    ///< Requests.
  std::int64_t topk = 64;    ///< K: slots of a token.
  std::optional<std::int64_t> kv_rows =
      {};               ///< Empty: each request has `tokens` rows of its own. Given: all requests select from these rows.
  double churn = 0.05;  ///< The share of its rows that a token replaces, 0 to 1.
  std::uint64_t seed = 1;
};

struct Walk {
  std::int64_t tokens = 0;            ///< T: batch × tokens.
  std::int64_t topk = 0;              ///< K
  std::int64_t kv_rows = 0;           ///< S
  std::vector<std::int32_t> indices;  ///< [T, K]
};

/// Token t of a request may select its first n = min(t + 1 + max(0, rows − tokens), rows) rows, where rows is the number of rows of the
/// request: it is the last `tokens` of them that are prefilled. While n ≤ K a token selects all n, in ascending order, then −1. From
/// there on a token's row is its predecessor's with max(1, round(K·churn)) slots (none where churn is 0) given to rows that the
/// predecessor did not select, as far as there are any. The first such token starts from rows 0 … K−1, or from K random ones where it has
/// no predecessor. Positions within a row are distinct. The same options give the same walk on every machine.
/// Errors: invalid_argument (names the option, what came and what is legal).
Result<Walk> make_walk(const WalkOptions& options);

}  // namespace kernwright::support
