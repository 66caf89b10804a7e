// MLA attention on warpgroup products: its constants, and the addresses of what stands in shared memory.
#pragma once

#include "common/mbarrier.cuh"
#include "common/shared_memory.cuh"
#include "common/types.cuh"
#include "kernwright/specialisation.cuh"
#include "mla/dimensions.cuh"
#include "mla/wgmma_layout.cuh"
#include "mla/wgmma_stages.cuh"

namespace kw::mla {

constexpr WgmmaLayout layout = wgmma_layout(specialisation.d_qk, tile);
static_assert(layout.legal, "make_plan answers threads = 0 for this tile");

constexpr int block_m = tile.block_m;
constexpr int slots = wgmma_probability_slots;
static_assert(slots == 2);
constexpr int register_panels = wgmma_register_panels(block_n);  // of Q; the others in shared memory
constexpr int shared_panels = panels - register_panels;
constexpr int query_panel_bytes = block_m * 128;
constexpr int probability_panel_bytes = block_m * 32;  // 16 keys
constexpr int slot_bytes = block_n / 16 * probability_panel_bytes;
constexpr int value_columns = d_v / 2;  // of one values warpgroup
constexpr int scores_barrier = 1;       // named barrier of the scoring warpgroup
constexpr int work_slots = wgmma_work_slots;

// Registers a thread: 128 at launch, moved to where the accumulators and Q are. 32 + 160 + 2 · 160 = 4 · 128.
constexpr u32 gather_registers = 32;
constexpr u32 scores_registers = 160;
constexpr u32 values_registers = 160;  // ptxas needs 154 for an instruction with 128 accumulators

/// Where everything stands, by address.
struct Shared {
  static constexpr bool gather_finds_work = true;

  SharedAddress base;
  unsigned char* bytes;

  KW_INLINE SharedAddress stage(u32 slot) const { return base + slot * stage_bytes; }
  KW_INLINE SharedAddress query() const { return base + static_cast<u32>(layout.query_offset); }
  KW_INLINE SharedAddress probability(u32 slot) const { return base + static_cast<u32>(layout.probability_offset) + slot * slot_bytes; }
  KW_INLINE float* factors(u32 slot) const { return reinterpret_cast<float*>(bytes + layout.factors_offset) + slot * block_m; }
  /// The owners of a stage's keys.
  KW_INLINE u32* owners(u32 slot) const { return reinterpret_cast<u32*>(bytes + layout.owners_offset) + slot * block_n; }
  KW_INLINE void set_owners(u32 slot, int row, u32 owners_of_key) const { owners(slot)[row] = owners_of_key; }
  KW_INLINE SharedAddress full(u32 slot) const { return barrier(slot); }
  KW_INLINE SharedAddress free(u32 slot) const { return barrier(stages + slot); }
  KW_INLINE SharedAddress ready(u32 slot) const { return barrier(2 * stages + slot); }
  KW_INLINE SharedAddress taken(u32 slot) const { return barrier(2 * stages + slots + slot); }
  KW_INLINE SharedAddress work_full(u32 slot) const { return barrier(2 * stages + 2 * slots + slot); }
  KW_INLINE SharedAddress work_free(u32 slot) const { return barrier(2 * stages + 2 * slots + work_slots + slot); }
  template <class Item>
  KW_INLINE Item* work(u32 slot) const {
    static_assert(sizeof(Item) <= wgmma_item_bytes);
    return reinterpret_cast<Item*>(bytes + layout.work_offset + slot * wgmma_item_bytes);
  }

 private:
  KW_INLINE SharedAddress barrier(u32 index) const { return base + static_cast<u32>(layout.barrier_offset) + index * mbarrier_bytes; }
};

}  // namespace kw::mla
