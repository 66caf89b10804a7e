// What sparse MLA prefill has to do for an input, whatever the kernel: the numbers that floors are made of.
#pragma once

#include <cstdint>
#include <span>

namespace kernwright::support {

struct SparseMlaWork {
  std::int64_t gathered_rows = 0;  ///< Σ over groups of the distinct rows that the group selects (per token: valid slots).
  double relative_union = 0;       ///< gathered_rows a group over valid slots a token: 1 where neighbours select the same rows.
  double operations = 0;  ///< 2 · (d_qk + d_v) · heads · group · gathered_rows: every gathered row against all rows of its group.
  double bytes = 0;       ///< q, out, indices and each selected kv row once: what memory must move at least.
};

/// group_size 0 or 1: per token. indices [tokens, topk], dense; positions outside [0, kv_rows) are empty, and so are slots from
/// topk_length [tokens] on, where that is not empty.
SparseMlaWork sparse_mla_work(std::span<const std::int32_t> indices, std::span<const std::int32_t> topk_length, std::int64_t tokens,
                              std::int64_t topk, std::int64_t kv_rows, std::int64_t heads, std::int64_t d_qk, std::int64_t d_v,
                              int group_size);

}  // namespace kernwright::support
