// How the persistent blocks of the wgmma variants come by their work.
#pragma once

#include "common/atomics.cuh"
#include "common/mbarrier.cuh"
#include "common/types.cuh"
#include "common/warp.cuh"
#include "sparse_mla/prefill_keys.cuh"
#include "sparse_mla/prefill_rows.cuh"
#include "sparse_mla/wgmma_work_item.cuh"

namespace kw::sparse_mla {

/// Slots up to the last one that is not empty: the rows of a prompt's first tokens end in empty slots. By a whole warp.
KW_INLINE u32 used_slots(const KeyList& list) {
  if constexpr (!per_token) return static_cast<u32>(list.count);
  constexpr int reads = 16;  // on their way at once
  for (int end = list.count; end > 0; end -= 32 * reads) {
    u32 used = 0;
    KW_UNROLL
    for (int i = 0; i < reads; ++i) {
      const int slot = end - 1 - i * 32 - lane_id();
      if (slot >= 0 && static_cast<u32>(list.rows[slot]) < list.limit) used = maximum(used, static_cast<u32>(slot) + 1);
    }
    used = reduce_lanes<32>(used, [](u32 a, u32 b) { return maximum(a, b); });
    if (used != 0) return used;
  }
  return 0;
}

/// The (group, head tile)s, from the last to the first: later groups of a prompt are the longer ones. A block takes the next one when it
/// has room for it, so that blocks finish together whatever the lengths are. One warp of the gathering warpgroup takes, one item ahead;
/// every warp reads. `Shared` says where the slots and their barriers stand.
template <class Shared>
class WorkQueue {
 public:
  KW_INLINE WorkQueue(const PrefillParams& params, const Shared& shared) : params_(params), shared_(shared) {}

  /// By one warp, before anyone reads. What follows from the parameters is computed where it is needed: registers are short.
  KW_INLINE void take_first() const { put(0, blockIdx.x); }
  /// By the same warp, behind its next(): the item after that.
  KW_INLINE void take_another() const {
    const u32 item = shared_.work((count_ - 1) % wgmma_work_slots)->index;
    u32 taken = items() - 1 - item + gridDim.x;
    if (params_.next_work != nullptr) {
      if (lane_id() == 0) taken = gridDim.x + atomic_add_global(params_.next_work, 1u);
      taken = shuffle(taken, 0);
    }
    mbarrier_wait(shared_.work_free(count_ % wgmma_work_slots), count_ / wgmma_work_slots % 2 ^ 1u);
    put(count_ % wgmma_work_slots, taken);
  }
  /// By whole warps.
  KW_INLINE WorkItem next() {
    mbarrier_wait(shared_.work_full(count_ % wgmma_work_slots), count_ / wgmma_work_slots % 2);
    const WorkItem item = *shared_.work(count_ % wgmma_work_slots);
    mbarrier_arrive(shared_.work_free(count_ % wgmma_work_slots));
    ++count_;
    return item;
  }

 private:
  KW_INLINE u32 items() const {
    return static_cast<u32>((params_.tokens + specialisation.group_size - 1) / specialisation.group_size) * layout.head_tiles;
  }
  KW_INLINE void put(u32 slot, u32 taken) const {
    WorkItem item{WorkItem::none, 0};
    if (taken < items()) {
      item.index = items() - 1 - taken;
      item.slots = used_slots(key_list(params_, block_rows(params_, item.index)));
    }
    if (lane_id() == 0) *shared_.work(slot) = item;
    mbarrier_arrive(shared_.work_full(slot));
  }

  const PrefillParams& params_;
  const Shared& shared_;
  u32 count_ = 0;  // items read
};

}  // namespace kw::sparse_mla
