// Barriers among the threads of a block. They also order shared and global memory among the threads that meet.
#pragma once

#include "common/types.cuh"

namespace kw {

#if defined(KW_HOST)

// The caller's place goes along: it is what the interpreter names when a barrier is not met.
inline void block_sync(simt::Location where = simt::here()) {
  __syncthreads(where);
}
inline void named_barrier_sync(int id, int threads, simt::Location where = simt::here()) {
  simt::block_barrier(static_cast<unsigned>(id), static_cast<unsigned>(threads), where);
}

#else

/// All threads of the block.
KW_INLINE void block_sync() {
  __syncthreads();
}

/// Barrier `id` (1 to 15; 0 is block_sync's) for `threads` threads, a multiple of 32: whole warps meet.
/// PTX ISA, Parallel Synchronization and Communication Instructions: bar, barrier.
KW_INLINE void named_barrier_sync(int id, int threads) {
  asm volatile("barrier.sync.aligned %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

#endif

}  // namespace kw
