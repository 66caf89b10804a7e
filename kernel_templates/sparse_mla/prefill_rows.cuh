// Which token and head each row of a block is.
//
// The grid is one-dimensional: blockIdx.x = group · head_tiles + head tile. Row r of a block is token r / heads_per_block of the group and
// head (head tile) · heads_per_block + r mod heads_per_block. Rows past the last head, and rows of tokens that the last group does not
// have, are padding: computed on zeros and never stored.
#pragma once

#include "common/types.cuh"
#include "sparse_mla/prefill_plan.cuh"

namespace kw::sparse_mla {

constexpr PrefillLayout layout = prefill_layout(specialisation, tile);
static_assert(layout.legal, "make_plan answers threads = 0 for this tile");
static_assert(specialisation.dtype == DType::bf16);

struct Row {
  i64 token;
  int head;
  bool padding;
};

struct BlockRows {
  i64 group;
  i64 first_token;
  int tokens;  // of the group: fewer than group_size in the last one
  int first_head;

  KW_INLINE Row row(int r) const {
    const int token = token_in_group(r);
    const int head = first_head + r % layout.heads_per_block;
    return {first_token + token, head, token >= tokens || head >= specialisation.heads};
  }
  static KW_INLINE int token_in_group(int r) { return r / layout.heads_per_block; }
};

/// Of one (group, head tile), numbered as the grid of a kernel that is not persistent.
KW_INLINE BlockRows block_rows(const PrefillParams& params, u32 block_index) {
  BlockRows block;
  block.group = block_index / static_cast<u32>(layout.head_tiles);
  block.first_token = block.group * specialisation.group_size;
  block.tokens = static_cast<int>(minimum<i64>(specialisation.group_size, params.tokens - block.first_token));
  block.first_head = static_cast<int>(block_index % static_cast<u32>(layout.head_tiles)) * layout.heads_per_block;
  return block;
}

/// Null where the row is padding.
KW_INLINE const unsigned char* query_row(const PrefillParams& params, const Row& row) {
  if (row.padding) return nullptr;
  return static_cast<const unsigned char*>(params.q) + (row.token * params.q_stride_token + row.head * params.q_stride_head) * 2;
}
KW_INLINE unsigned char* output_row(const PrefillParams& params, const Row& row) {
  return static_cast<unsigned char*>(params.out) + (row.token * params.out_stride_token + row.head * params.out_stride_head) * 2;
}

}  // namespace kw::sparse_mla
