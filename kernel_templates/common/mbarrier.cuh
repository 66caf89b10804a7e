// Barriers in shared memory that count arrivals in phases. For the device only: docs/decisions.md says why there is no host body.
// PTX ISA, Parallel Synchronization and Communication Instructions: mbarrier.
#pragma once

#include "common/shared_memory.cuh"
#include "common/types.cuh"

namespace kw {

inline constexpr u32 mbarrier_bytes = 8;

/// One thread, before a fence and a barrier that the others wait at. A phase ends with `arrivals` arrivals. PTX ISA: mbarrier.init.
KW_INLINE void mbarrier_init(SharedAddress barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier.offset), "r"(arrivals) : "memory");
}
/// Makes initialised barriers known to the asynchronous copies. PTX ISA: fence.mbarrier_init.
KW_INLINE void mbarrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
/// Releases what this thread wrote. PTX ISA: mbarrier.arrive.
KW_INLINE void mbarrier_arrive(SharedAddress barrier) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier.offset) : "memory");
}
/// Arrives once this thread's cp.async copies so far are done; counts as one of the barrier's arrivals. PTX ISA: cp.async.mbarrier.arrive.
KW_INLINE void mbarrier_arrive_after_copies(SharedAddress barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier.offset) : "memory");
}
/// Waits until the phase of this parity is over (a fresh barrier counts as past parity 1). PTX ISA: mbarrier.try_wait.
KW_INLINE void mbarrier_wait(SharedAddress barrier, u32 parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\n"
      "bra again;\n"
      "over:\n"
      "}" ::"r"(barrier.offset),
      "r"(parity)
      : "memory");
}
/// Orders this thread's ordinary accesses to shared memory, and those it knows of, before later ones of the asynchronous proxy (wgmma).
/// PTX ISA, Memory Consistency Model: proxies; membar/fence.
KW_INLINE void async_proxy_fence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// A place in a ring of `size` slots and the parity of its current round.
template <int size>
struct RingPlace {
  u32 slot = 0;
  u32 round = 0;
  KW_INLINE void next() {
    if (++slot == size) {
      slot = 0;
      round ^= 1u;
    }
  }
};

}  // namespace kw
