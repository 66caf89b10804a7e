// What a persistent block of the wgmma variants takes from its queue.
#pragma once

#include "common/types.cuh"
#include "sparse_mla/prefill_rows.cuh"

namespace kw::sparse_mla {

/// A (group, head tile) and how many slots of its list are to be looked at. No item: there is no more work.
struct WorkItem {
  static constexpr u32 none = 0xFFFFFFFFu;
  u32 index;
  u32 slots;
  KW_INLINE u32 tiles() const { return ceil_div(slots, static_cast<u32>(tile.block_n)); }
};

}  // namespace kw::sparse_mla
