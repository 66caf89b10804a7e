// The keys that a block attends to: a token's list (group_size 1) or a group's union.
#pragma once

#include "common/types.cuh"
#include "sparse_mla/prefill_rows.cuh"

namespace kw::sparse_mla {

inline constexpr bool per_token = specialisation.group_size == 1;

/// One slot: the kv row, and which tokens of the group attend to it. An empty slot has no owner and its row is not to be read.
struct Key {
  int row;
  u32 owners;
};

struct KeyList {
  const int* rows;
  const void* masks;
  int count;
  u32 limit;  // per token: rows at or above it are empty slots; so are negative ones, which are above it when read as unsigned

  KW_INLINE int left() const { return count; }
  /// Leaves out the first `slots`.
  KW_INLINE void skip(int slots) {
    rows += slots;
    if constexpr (!per_token) masks = static_cast<const u8*>(masks) + slots * (specialisation.group_size <= 8 ? 1 : 2);
    count -= slots;
  }
  KW_INLINE Key key(int slot) const {
    if (slot >= count) return {0, 0};
    const int row = rows[slot];
    if constexpr (per_token) {
      return {row, static_cast<u32>(row) < limit ? 1u : 0u};
    } else if constexpr (specialisation.group_size <= 8) {
      return {row, static_cast<const u8*>(masks)[slot]};
    } else {
      return {row, static_cast<const u16*>(masks)[slot]};
    }
  }
};

KW_INLINE KeyList key_list(const PrefillParams& params, const BlockRows& block) {
  KeyList list;
  list.limit = static_cast<u32>(minimum<i64>(params.kv_rows, i64{1} << 31));
  if constexpr (per_token) {
    list.rows = params.indices + block.group * params.topk;
    list.masks = nullptr;
    list.count = params.topk;
    if (params.topk_length != nullptr) list.count = maximum(0, minimum(params.topk_length[block.group], params.topk));
  } else {
    constexpr int mask_bytes = specialisation.group_size <= 8 ? 1 : 2;
    list.rows = params.union_rows + block.group * params.union_capacity;
    list.masks = static_cast<const u8*>(params.union_masks) + block.group * params.union_capacity * mask_bytes;
    list.count = params.union_counts[block.group];
  }
  return list;
}

KW_INLINE const unsigned char* key_row(const PrefillParams& params, int row) {
  return static_cast<const unsigned char*>(params.kv) + row * params.kv_stride_row * 2;
}

/// A block's keys as mla/gather.cuh asks for them.
struct PrefillKeys {
  using Key = sparse_mla::Key;
  const PrefillParams& params;
  KeyList list;
  static constexpr int first = 0;
  int count;

  KW_INLINE PrefillKeys(const PrefillParams& call, const BlockRows& block) : params(call), list(key_list(call, block)), count(list.count) {}
  KW_INLINE Key key(int slot) const { return list.key(slot); }
  KW_INLINE const unsigned char* address(int row) const { return key_row(params, row); }
  KW_INLINE const unsigned char* base() const { return static_cast<const unsigned char*>(params.kv); }
};

}  // namespace kw::sparse_mla
