// The wgmma variant of sparse MLA prefill: its constants, and where everything stands in shared memory. prefill_wgmma.cu draws it.
#pragma once

#include "common/mbarrier.cuh"
#include "common/shared_memory.cuh"
#include "common/types.cuh"
#include "sparse_mla/prefill_plan.cuh"
#include "sparse_mla/prefill_rows.cuh"
#include "sparse_mla/wgmma_work_item.cuh"

namespace kw::sparse_mla {

constexpr int block_m = tile.block_m;
constexpr int block_n = tile.block_n;
constexpr int stages = tile.stages;
constexpr int slots = wgmma_probability_slots;
static_assert(slots == 2);
constexpr int panels = layout.chunks / 8;               // of 64 columns
constexpr int register_panels = wgmma_register_panels;  // of Q; the others in shared memory
constexpr int shared_panels = panels - register_panels;
constexpr int query_panel_bytes = block_m * 128;
constexpr int panel_bytes = block_n * 128;  // of a stage
constexpr int stage_bytes = panels * panel_bytes;
constexpr int slot_bytes = block_m * layout.probability_bytes;
constexpr int warpgroup = 128;
constexpr int value_columns = d_v / 2;     // of one value warpgroup
constexpr float rescale_threshold = 8.0f;  // in base 2
constexpr int scores_barrier = 1;          // named barrier of the scoring warpgroup
constexpr int work_slots = wgmma_work_slots;

// Registers a thread: 128 at launch, moved to where the accumulators and Q are. 32 + 160 + 2 · 160 = 4 · 128.
constexpr u32 gather_registers = 32;
constexpr u32 scores_registers = 160;
constexpr u32 values_registers = 160;  // ptxas needs 154 for an instruction with 128 accumulators

/// Where everything stands, by address.
struct Shared {
  SharedAddress base;
  unsigned char* bytes;

  KW_INLINE SharedAddress stage(u32 slot) const { return base + slot * stage_bytes; }
  KW_INLINE SharedAddress query() const { return base + static_cast<u32>(layout.query_offset); }
  KW_INLINE SharedAddress probability(u32 slot) const { return base + static_cast<u32>(layout.probability_offset) + slot * slot_bytes; }
  KW_INLINE float* factors(u32 slot) const { return reinterpret_cast<float*>(bytes + layout.row_offset) + slot * block_m; }
  KW_INLINE u32* owners(u32 stage) const { return reinterpret_cast<u32*>(bytes + layout.owners_offset) + stage * block_n; }
  KW_INLINE SharedAddress full(u32 slot) const { return barrier(slot); }
  KW_INLINE SharedAddress free(u32 slot) const { return barrier(stages + slot); }
  KW_INLINE SharedAddress ready(u32 slot) const { return barrier(2 * stages + slot); }
  KW_INLINE SharedAddress taken(u32 slot) const { return barrier(2 * stages + slots + slot); }
  KW_INLINE SharedAddress work_full(u32 slot) const { return barrier(2 * stages + 2 * slots + slot); }
  KW_INLINE SharedAddress work_free(u32 slot) const { return barrier(2 * stages + 2 * slots + work_slots + slot); }
  KW_INLINE WorkItem* work(u32 slot) const { return reinterpret_cast<WorkItem*>(bytes + layout.work_offset) + slot; }

 private:
  KW_INLINE SharedAddress barrier(u32 index) const { return base + static_cast<u32>(layout.barrier_offset) + index * mbarrier_bytes; }
};

}  // namespace kw::sparse_mla
