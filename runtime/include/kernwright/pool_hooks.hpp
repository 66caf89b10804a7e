// What attention asks of a KV pool, and which attention may read which pool.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "kernwright/result.hpp"
#include "kernwright/tensor_view.hpp"

namespace kernwright {

/// How a pool's ids become rows. Whether they are translated is asked by translates(), never by the multiplier: a unified pool of one layer
/// has multiplier 1 and moves its pages all the same.
struct PoolHooks {
  TensorView v2p;      ///< [V + 1] int64, or absent: a static pool.
  int page_size = 1;   ///< Tokens.
  int multiplier = 1;  ///< L; 1 in a static pool.
  [[nodiscard]] bool translates() const noexcept { return v2p.present(); }
};

enum class PoolKind : std::uint8_t {
  static_pool,          ///< Ids are rows; nothing moves.
  unified_mla,          ///< MLA layers' rows as dense views of a unified pool.
  unified_without_mla,  ///< A unified pool whose rows have another layout.
};
std::string_view to_string(PoolKind kind) noexcept;  ///< "static", "unified with MLA", "unified without MLA"

/// What each attention reader has declared that it can read. A value: an engine keeps one and adds its own readers to it.
class PoolReaders {
 public:
  /// Kernwright's own ops ("kernwright/paged_mla_decode", "kernwright/sparse_mla_prefill") and the external readers that were tried with
  /// dense views: trtllm_mla, flashinfer, cutedsl_mla, tokenspeed_mla, triton; without MLA triton alone.
  static PoolReaders with_defaults();
  /// Adds to what `reader` has declared.
  PoolReaders& declare(std::string_view reader, PoolKind kind);
  /// A static pool is read by anyone. Otherwise `unsupported` where the reader has not declared the kind, with the list of those that have.
  [[nodiscard]] Result<> check(std::string_view reader, PoolKind kind) const;

 private:
  std::map<PoolKind, std::set<std::string, std::less<>>> declared_;
};

}  // namespace kernwright
