// A barrier of some warps that also tells whether one of their threads has something to say. For the device only, like the warpgroup
// products between which it stands.
#pragma once

#include "common/types.cuh"

namespace kw {

/// named_barrier_sync, and whether `predicate` holds for any of the threads. PTX ISA, Parallel Synchronization and Communication
/// Instructions: bar, barrier.
KW_INLINE bool named_barrier_any(int id, int threads, bool predicate) {
  u32 any;
  asm volatile(
      "{\n"
      ".reg .pred own;\n"
      ".reg .pred any;\n"
      "setp.ne.u32 own, %3, 0;\n"
      "barrier.red.or.aligned.pred any, %1, %2, own;\n"
      "selp.u32 %0, 1, 0, any;\n"
      "}"
      : "=r"(any)
      : "r"(id), "r"(threads), "r"(static_cast<u32>(predicate))
      : "memory");
  return any != 0;
}

}  // namespace kw
