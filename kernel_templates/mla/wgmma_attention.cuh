// MLA attention on Hopper's warpgroup products (sm_90a): 64 rows of Q against tiles of block_n keys, persistent blocks, one an SM.
//
// Four warpgroups, each with one job, pass tiles along through shared memory:
//
//   gather   block_n kv rows and their owners by 16-byte cp.async into a ring of `stages`         ── full  ──▶ scores
//   scores   S = Q Kᵀ with some of Q's panels of 64 columns in registers, softmax, P              ── ready ──▶ values
//   values   two of them: O += P V, 256 of the 512 columns each, accumulators in registers        ── free  ──▶ gather, scores
//
// K and V are the same rows, fetched once. S is summed in four chains of products, two of them under way at a time; the mask and the
// softmax's reference are what the sums begin with. A tile is handed to the values groups when half of the next one's products are through,
// so that its P V runs during that softmax more than beside the products; P has two slots for that. A panel of Q in registers is not read
// from shared memory for every tile: with all of Q there, those reads would be the bottleneck. wgmma_register_panels() says how many
// panels there are registers for.
//
// Running maximum: the sums refer to a row's maximum of some time ago. It is moved, and O rescaled, only where a score exceeds it by more
// than 8 (in base 2): p stays below 2^8, where bf16 is as fine as below 1, and after the first tiles O is never touched between products.
//
// Shared memory, in the order of WgmmaLayout: stages of panels (64 columns: block_n rows × 128 bytes, 128-byte swizzle: 16-byte piece c of
// row r at place c xor r mod 8), then Q's other panels (64 rows × 128 bytes each, same swizzle), P's slots in panels of 16 keys (64 rows ×
// 32 bytes, 32-byte swizzle: piece c at c xor r / 4 mod 2), a factor for each row of a slot, owners of a stage's keys, the work queue,
// mbarriers.
//
// What is worked on is the template's affair. Every thread has a `Work`, with
//
//   Item                         a piece of work, at most wgmma_item_bytes: bool none(), u32 tiles()
//   Item first(), after(Item)    in order, by one whole warp; none() behind the last one
//   Keys keys(Item)              the piece's slots: int left(), skip(n), Key key(i) of the i-th that is left, empty past the end
//   Key                          `row`, and `owners`, whose bit i says that token i attends to it; 0: an empty slot
//   key_row(row)                 where a kv row begins
//   rows(Item)                   bool padding(r); query(r), which may be read for padding too; output(r)
//   u32 owner_bit(Item, r)       the bit of a key's owners that speaks for row r; for padding any
//   float sm_scale()
//   RowScale finish(Item, r, reference, sum, largest, writes)
//                                what O is multiplied by; writes the row's statistics where `writes`, which one thread has
//   one_token                    whether all rows are of one token
//   token_has_16_rows            whether rows r and r + 8 always are
//   has_partials                 bool Item::partial(): the piece leaves in fp32, to float* partial_output(Item, r)
#pragma once

#include "common/barrier.cuh"
#include "common/mbarrier.cuh"
#include "common/shared_memory.cuh"
#include "common/warp.cuh"
#include "common/wgmma.cuh"
#include "mla/wgmma_gather.cuh"
#include "mla/wgmma_scores.cuh"
#include "mla/wgmma_shared.cuh"
#include "mla/wgmma_values.cuh"

namespace kw::mla {

/// By all threads of a block, before work(): the barriers.
KW_INLINE Shared prepare_shared() {
  unsigned char* bytes = dynamic_shared();
  const Shared shared{shared_address(bytes), bytes};
  if (threadIdx.x == 0) {
    KW_UNROLL
    for (u32 s = 0; s < stages; ++s) {
      mbarrier_init(shared.full(s), 2 * warpgroup);  // each gathering thread: its copies, and the owners it wrote
      mbarrier_init(shared.free(s), 3 * warpgroup);  // every thread of the other groups
    }
    KW_UNROLL
    for (u32 s = 0; s < slots; ++s) {
      mbarrier_init(shared.ready(s), warpgroup);      // every scoring thread
      mbarrier_init(shared.taken(s), 2 * warpgroup);  // every thread of the values groups
    }
    KW_UNROLL
    for (u32 s = 0; s < work_slots; ++s) {
      mbarrier_init(shared.work_full(s), 32);             // the warp that puts
      mbarrier_init(shared.work_free(s), block_threads);  // every thread
    }
    mbarrier_init_fence();
  }
  block_sync();
  return shared;
}

/// Everything that `work` has for this block.
template <class Work>
KW_INLINE void attend(const Work& work, const Shared& shared) {
  const int group = warp_id() / 4;
  if (group == 0) {
    lower_registers<gather_registers>();
    gather(work, shared);
  } else if (group == 1) {
    raise_registers<scores_registers>();
    score(work, shared);
  } else {
    raise_registers<values_registers>();
    accumulate(work, shared, group - 2);
  }
}

}  // namespace kw::mla
