// MLA attention of one token's heads on Hopper's warpgroup products (sm_90a): the keys are the 64 rows of a product, the heads (8, 16 or
// 32) its columns, so that few heads fill it. Persistent blocks, one an SM.
//
// Two warpgroups pass stages of 64 keys along through shared memory:
//
//   gather   64 kv rows by 16-byte cp.async into a ring of `stages`, ahead over the borders of tokens   ── full ──▶ attend
//   attend   Sᵀ = K Qᵀ, softmax, Pᵀ through shared memory, Oᵀ += Vᵀ Pᵀ, 512 × heads in registers         ── free ──▶ gather
//
// K and V are the same rows, fetched once. A row takes an SM about 40 cycles to gather, whatever is computed. The products of 64 keys read
// (36 + 32) · 2 KiB of the stage and the heads' operands, at 128 bytes a cycle, and are through in half of that time: nothing has to
// overlap inside the computing group, it must only not keep a stage longer than the others take to fill.
//
// Running maximum: as in the wgmma variant, the sums refer to a head's maximum of some time ago, and O is rescaled only where a score
// exceeds it by more than 8 (in base 2).
//
// Between two tokens: the next token's queries are fetched behind the last product that reads the present ones, and the output is turned
// from Oᵀ into rows in the last stage before that is free again.
//
// Shared memory: stages of panels (64 columns: 64 rows × 128 bytes, 128-byte swizzle: 16-byte piece c of row r at place c xor r mod 8), Q
// in panels (a row a head, same swizzle), Pᵀ (a head's 64 keys in a row, same swizzle), two values of each warp for each head, mbarriers,
// the work queue, a byte a key that says whether its slot is taken.
//
// What is worked on is the template's affair: see mla/wgmma_attention.cuh.
#pragma once

#include "common/barrier.cuh"
#include "common/mbarrier.cuh"
#include "common/shared_memory.cuh"
#include "common/warp.cuh"
#include "mla/wgmma_gather.cuh"
#include "mla/wgmma_keys_attend.cuh"
#include "mla/wgmma_keys_shared.cuh"

namespace kw::mla {

/// By all threads of a block, before attend(): the barriers.
KW_INLINE Shared prepare_shared() {
  unsigned char* bytes = dynamic_shared();
  const Shared shared{shared_address(bytes), bytes};
  if (threadIdx.x == 0) {
    KW_UNROLL
    for (u32 s = 0; s < stages; ++s) {
      mbarrier_init(shared.full(s), 2 * warpgroup);  // each gathering thread: its copies, and the owners it wrote
      mbarrier_init(shared.free(s), warpgroup);      // each computing thread
    }
    KW_UNROLL
    for (u32 s = 0; s < wgmma_work_slots; ++s) {
      mbarrier_init(shared.work_full(s), 32);             // the warp that takes
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
  if (warp_id() < warpgroup / 32) {
    gather(work, shared);
  } else {
    attend_keys(work, shared);
  }
}

}  // namespace kw::mla
