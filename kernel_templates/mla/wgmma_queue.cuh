// How the roles of a block learn what to work on next.
#pragma once

#include "common/mbarrier.cuh"
#include "common/types.cuh"
#include "common/warp.cuh"
#include "mla/wgmma_layout.cuh"

namespace kw::mla {

/// Pieces of work in order, in slots of shared memory. One warp puts, one item ahead, since an item is found by a chain of reads; every
/// warp reads. An item's number of tiles is `tiles()`; `none()` says that there is no more work. `Shared` says where the slots and their
/// barriers stand.
template <class Item, class Shared>
class WorkQueue {
 public:
  explicit KW_INLINE WorkQueue(const Shared& shared) : shared_(shared) {}

  /// By one whole warp, before its own next() of the item.
  KW_INLINE void put_first(const Item& item) const { put(0, item); }
  /// By the same warp, behind its next() of the item before.
  KW_INLINE void put_another(const Item& item) const {
    mbarrier_wait(shared_.work_free(count_ % wgmma_work_slots), count_ / wgmma_work_slots % 2 ^ 1u);
    put(count_ % wgmma_work_slots, item);
  }
  /// By whole warps.
  KW_INLINE Item next() {
    mbarrier_wait(shared_.work_full(count_ % wgmma_work_slots), count_ / wgmma_work_slots % 2);
    const Item item = *shared_.template work<Item>(count_ % wgmma_work_slots);
    mbarrier_arrive(shared_.work_free(count_ % wgmma_work_slots));
    ++count_;
    return item;
  }

 private:
  KW_INLINE void put(u32 slot, const Item& item) const {
    if (lane_id() == 0) *shared_.template work<Item>(slot) = item;
    mbarrier_arrive(shared_.work_full(slot));
  }

  const Shared& shared_;
  u32 count_ = 0;  // items read
};

}  // namespace kw::mla
