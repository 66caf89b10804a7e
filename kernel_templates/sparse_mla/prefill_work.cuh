// What the persistent blocks of the wgmma variants work on, as mla/wgmma_attention.cuh asks for it: (group, head tile)s.
#pragma once

#include "common/atomics.cuh"
#include "common/types.cuh"
#include "common/warp.cuh"
#include "mla/softmax.cuh"
#include "sparse_mla/prefill_keys.cuh"
#include "sparse_mla/prefill_rows.cuh"
#include "sparse_mla/prefill_softmax.cuh"

namespace kw::sparse_mla {

/// Slots up to the last one that is not empty: the rows of a prompt's first tokens end in empty slots. All slots where a list cannot be
/// read four at a time. By a whole warp.
KW_INLINE u32 used_slots(const KeyList& list, int topk) {
  if (!per_token || topk % 4 != 0 || reinterpret_cast<u64>(list.rows) % 16 != 0) return static_cast<u32>(list.count);
  constexpr int reads = tile.variant == Variant::wgmma ? 3 : 16;  // on their way at once, as registers allow
  for (int quads = ceil_div(list.count, 4); quads > 0; quads -= 32 * reads) {
    const int last = quads - 1 - lane_id();
    Vec16 rows[reads];
    KW_UNROLL
    for (int i = 0; i < reads; ++i) rows[i] = load_vector<Vec16>(list.rows + maximum(last - i * 32, 0) * 4);
    int used = 0;
    KW_UNROLL
    for (int i = reads - 1; i >= 0; --i) {
      KW_UNROLL
      for (int j = 0; j < 4; ++j) {
        if (last >= i * 32 && rows[i].word[j] < list.limit) used = (last - i * 32) * 4 + j + 1;
      }
    }
    used = minimum(reduce_lanes<32>(used, [](int a, int b) { return maximum(a, b); }), list.count);
    if (used != 0) return static_cast<u32>(used);
  }
  return 0;
}

/// Rows of a block for the scoring and the values warpgroups. Padding computes on the block's first row; nobody looks at its scores.
struct WorkRows {
  const PrefillParams& params;
  BlockRows block;
  KW_INLINE bool padding(int r) const { return block.row(r).padding; }
  KW_INLINE const unsigned char* query(int r) const {
    const Row row = block.row(r);
    return query_row(params, row.padding ? block.row(0) : row);
  }
  KW_INLINE unsigned char* output(int r) const { return output_row(params, block.row(r)); }
};

/// The (group, head tile)s, from the last to the first: later groups of a prompt are the longer ones. A block takes the next one when it
/// has room for it, so that blocks finish together whatever the lengths are.
class PrefillWork {
 public:
  /// How many slots of a (group, head tile)'s list are to be looked at.
  struct Item {
    static constexpr u32 nothing = 0xFFFFFFFFu;
    u32 index;
    u32 slots;
    KW_INLINE bool none() const { return index == nothing; }
    KW_INLINE u32 tiles() const { return ceil_div(slots, static_cast<u32>(tile.block_n)); }
  };
  using Keys = KeyList;
  using Key = sparse_mla::Key;
  static constexpr bool one_token = per_token;
  static constexpr bool token_has_16_rows = layout.heads_per_block % 16 == 0;
  static constexpr bool has_partials = false;

  explicit KW_INLINE PrefillWork(const PrefillParams& params) : params_(params) {}

  /// What follows from the parameters is computed where it is needed: registers are short.
  KW_INLINE Item first() const { return item(blockIdx.x); }
  KW_INLINE Item after(const Item& last) const {
    u32 taken = 0;
    if (params_.next_work != nullptr) {
      if (lane_id() == 0) taken = gridDim.x + atomic_add_global(params_.next_work, 1u);
      taken = shuffle(taken, 0);
    } else {
      // Back and forth over the blocks, so that each gets as many long ones.
      const u32 place = items() - 1 - last.index;
      taken = place + 2 * (gridDim.x - 1 - place % gridDim.x) + 1;
    }
    return item(taken);
  }
  KW_INLINE Keys keys(const Item& item) const {
    KeyList list = key_list(params_, block_rows(params_, item.index));
    list.count = static_cast<int>(item.slots);
    return list;
  }
  KW_INLINE const unsigned char* key_row(int row) const { return sparse_mla::key_row(params_, row); }

  KW_INLINE float sm_scale() const { return params_.sm_scale; }
  KW_INLINE WorkRows rows(const Item& item) const { return {params_, block_rows(params_, item.index)}; }
  KW_INLINE u32 owner_bit(const Item&, int r) const { return 1u << BlockRows::token_in_group(r); }
  KW_INLINE mla::RowScale finish(const Item& item, int r, float reference, float sum, float largest, bool writes) const {
    return finish_row(params_, block_rows(params_, item.index).row(r), reference, sum, largest, writes);
  }

 private:
  KW_INLINE u32 items() const {
    return static_cast<u32>((params_.tokens + specialisation.group_size - 1) / specialisation.group_size) * layout.head_tiles;
  }
  KW_INLINE Item item(u32 taken) const {
    if (taken >= items()) return {Item::nothing, 0};
    const u32 index = items() - 1 - taken;
    return {index, used_slots(key_list(params_, block_rows(params_, index)), params_.topk)};
  }

  const PrefillParams& params_;
};

}  // namespace kw::sparse_mla
