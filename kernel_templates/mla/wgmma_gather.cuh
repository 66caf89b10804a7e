// The gathering warpgroup of both wgmma attentions: kv rows and their owners into the ring of stages.
#pragma once

#include "common/cp_async.cuh"
#include "common/mbarrier.cuh"
#include "common/types.cuh"
#include "common/warp.cuh"
#include "mla/wgmma_queue.cuh"
#include "mla/wgmma_stages.cuh"

namespace kw::mla {

/// Eight threads a row, each a 16-byte piece of every panel: a warp's copy reads whole 128-byte lines of four rows. The group runs ahead of
/// the others over the borders of pieces of work as far as the stages reach. Besides where things stand, `Shared` says
///
///   gather_finds_work               whether this group puts the pieces of work into the queue; otherwise a computing one does
///   set_owners(slot, row, owners)   how the owners of a stage's key are kept
template <class Work, class Shared>
KW_INLINE void gather(const Work& work, const Shared& shared) {
  constexpr int rows_at_once = warpgroup / 8;
  constexpr int rows = block_n / rows_at_once;  // of a thread
  RingPlace<stages> ring;
  WorkQueue<typename Work::Item, Shared> queue(shared);
  if constexpr (Shared::gather_finds_work) {
    if (warp_id() == 0) queue.put_first(work.first());
  }
  for (;;) {
    const typename Work::Item item = queue.next();
    if (item.none()) return;
    if constexpr (Shared::gather_finds_work) {
      if (warp_id() == 0) queue.put_another(work.after(item));
    }
    const int thread = static_cast<int>(reread_thread_index()) % warpgroup;  // nothing of it is kept while work is looked for
    const int piece = thread % 8;
    const int row = thread / 8;                                                // and every 16th after it
    const u32 place = static_cast<u32>(row * 128 + (piece ^ (row % 8)) * 16);  // the same swizzle for all: 16 is a multiple of 8
    typename Work::Keys list = work.keys(item);
    list.skip(row);
    typename Work::Key keys[rows];
    KW_UNROLL
    for (int r = 0; r < rows; ++r) keys[r] = list.key(r * rows_at_once);
    KW_UNROLL_BY(1)
    while (list.left() + row > 0) {  // the same for all threads
      mbarrier_wait(shared.free(ring.slot), ring.round ^ 1u);
      const SharedAddress stage = shared.stage(ring.slot) + place;
      KW_UNROLL
      for (int r = 0; r < rows; ++r) {
        const bool owned = keys[r].owners != 0;
        if (piece == 0) shared.set_owners(ring.slot, row + r * rows_at_once, keys[r].owners);
        const unsigned char* from = work.key_row(owned ? keys[r].row : 0) + piece * 16;
        const u32 bytes = owned ? 16u : 0u;
        KW_UNROLL
        for (int p = 0; p < panels; ++p)
          cp_async_16(stage + static_cast<u32>(p * panel_bytes + r * rows_at_once * 128), from + p * 128, bytes);
      }
      mbarrier_arrive_after_copies(shared.full(ring.slot));
      mbarrier_arrive(shared.full(ring.slot));  // the owners
      ring.next();
      list.skip(block_n);
      KW_UNROLL
      for (int r = 0; r < rows; ++r) keys[r] = list.key(r * rows_at_once);  // on its way while the next stage is waited for
    }
  }
}

}  // namespace kw::mla
