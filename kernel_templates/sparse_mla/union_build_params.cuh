// The run-time parameters of sparse_mla/union_build: one struct for the kernel and for the op that fills it.
#pragma once

namespace kw::sparse_mla {

struct UnionBuildParams {
  const int* indices;      // [tokens, topk]
  const int* topk_length;  // [tokens] or null
  int* union_rows;         // [groups, capacity]: each distinct valid position of the group once, ascending
  void* union_masks;       // [groups, capacity]: bit i says that token i of the group selected it; u8 for group_size <= 8, u16 for 16
  int* union_counts;       // [groups]
  unsigned* next_work;     // set to 0 for the attention kernel that follows
  long long tokens;        // 0: nothing to do, the kernel returns at once. The last group holds tokens mod group_size.
  long long kv_rows;       // positions below 0 or at or above it are empty slots
  long long capacity;      // at least min(group_size * topk, kv_rows)
  int topk;
};

}  // namespace kw::sparse_mla
