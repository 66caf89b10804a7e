// MLA attention with the keys as the rows of products: its constants, and the addresses of what stands in shared memory.
#pragma once

#include "common/mbarrier.cuh"
#include "common/shared_memory.cuh"
#include "common/types.cuh"
#include "kernwright/specialisation.cuh"
#include "mla/dimensions.cuh"
#include "mla/wgmma_keys_layout.cuh"
#include "mla/wgmma_stages.cuh"

namespace kw::mla {

constexpr WgmmaKeysLayout layout = wgmma_keys_layout(specialisation.d_qk, tile);
static_assert(layout.legal, "make_plan answers threads = 0 for this tile");

constexpr int block_heads = tile.block_m;  // the columns of the products
constexpr int value_panels = d_v / 64;
constexpr int query_panel_bytes = block_heads * 128;
constexpr int computing_warps = 4;
constexpr int computing_barrier = 1;  // named barrier of the computing warpgroup
static_assert(block_n * 2 == 128, "a row of P fills the 128-byte swizzle");

/// Where everything stands, by address.
struct Shared {
  static constexpr bool gather_finds_work = false;

  SharedAddress base;
  unsigned char* bytes;

  KW_INLINE SharedAddress stage(u32 slot) const { return base + slot * stage_bytes; }
  KW_INLINE const unsigned char* stage_contents(u32 slot) const { return bytes + slot * stage_bytes; }
  KW_INLINE SharedAddress query() const { return base + static_cast<u32>(layout.query_offset); }
  KW_INLINE SharedAddress probability() const { return base + static_cast<u32>(layout.probability_offset); }
  /// What the computing warps tell each other of each head.
  KW_INLINE float* sums(int warp) const { return reinterpret_cast<float*>(bytes + layout.row_offset) + warp * block_heads; }
  KW_INLINE float* maxima(int warp) const { return sums(computing_warps + warp); }
  /// A byte a key of a stage: whether its slot is taken.
  KW_INLINE u8* owners(u32 slot) const { return bytes + layout.owners_offset + slot * block_n; }
  KW_INLINE void set_owners(u32 slot, int row, u32 owners_of_key) const { owners(slot)[row] = owners_of_key != 0 ? 1 : 0; }
  KW_INLINE SharedAddress full(u32 slot) const { return barrier(slot); }
  KW_INLINE SharedAddress free(u32 slot) const { return barrier(stages + slot); }
  KW_INLINE SharedAddress work_full(u32 slot) const { return barrier(2 * stages + slot); }
  KW_INLINE SharedAddress work_free(u32 slot) const { return barrier(2 * stages + wgmma_work_slots + slot); }
  template <class Item>
  KW_INLINE Item* work(u32 slot) const {
    static_assert(sizeof(Item) <= wgmma_item_bytes);
    return reinterpret_cast<Item*>(bytes + layout.work_offset + slot * wgmma_item_bytes);
  }

 private:
  KW_INLINE SharedAddress barrier(u32 index) const { return base + static_cast<u32>(layout.barrier_offset) + index * mbarrier_bytes; }
};

}  // namespace kw::mla
