// The workspace of a union: where the rows, masks and counts of a chunk of groups lie.
#pragma once

#include <cstdint>

#include "kernwright/units.hpp"
#include "ops/tensor_check.hpp"

namespace kernwright {

/// Offsets into the workspace, bytes:
///   [next_work: u32 | counts: groups x i32 | rows: groups x capacity x i32 | masks: groups x capacity x ceil(G / 8)], each part aligned to
///   256; next_work at the front.
struct UnionLayout {
  std::int64_t capacity = 0;  ///< Rows a union can have: min(G * K, S).
  std::uint64_t counts_offset = 0;
  std::uint64_t rows_offset = 0;
  std::uint64_t masks_offset = 0;
  Bytes size;
};

/// All extents are at least 0 and group_size is 2, 4, 8 or 16; checked by the caller.
UnionLayout union_layout(std::int64_t groups, int group_size, std::int64_t topk, std::int64_t kv_rows) noexcept;

/// The largest number of whole groups, at most `groups`, whose layout fits `size`; 0 where not even one does.
std::int64_t groups_that_fit(Bytes size, std::int64_t groups, int group_size, std::int64_t topk, std::int64_t kv_rows) noexcept;

/// What is asked of a caller for `groups`: the layout of all, or, where that is more than `limit`, all of the limit. It grows with each
/// extent, so that what suffices for the largest call suffices for every other.
Bytes union_workspace(Bytes limit, std::int64_t groups, int group_size, std::int64_t topk, std::int64_t kv_rows) noexcept;

}  // namespace kernwright
