// Bulk copies from global to shared memory that a barrier in shared memory counts. For the device only, like common/mbarrier.cuh.
#pragma once

#include "common/shared_memory.cuh"
#include "common/types.cuh"

namespace gather_limit {

/// Arrives at `barrier`, whose phase ends once `bytes` have arrived too. PTX ISA, Parallel Synchronization and Communication Instructions:
/// mbarrier.arrive, .expect_tx.
KW_INLINE void arrive_expecting(kw::SharedAddress barrier, kw::u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier.offset), "r"(bytes) : "memory");
}

/// Starts a copy of `bytes`, a multiple of 16; `barrier` counts them. Both addresses are 16-byte aligned. PTX ISA, Data Movement and
/// Conversion Instructions: cp.async.bulk.
KW_INLINE void bulk_copy(kw::SharedAddress shared, const void* global, kw::u32 bytes, kw::SharedAddress barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared.offset),
               "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(barrier.offset)
               : "memory");
}

}  // namespace gather_limit
