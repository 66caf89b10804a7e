// Relaxed atomics whose old value nobody needs.
#pragma once

#include "common/types.cuh"

namespace kw {

/// *word |= bits, in shared memory. PTX ISA, Parallel Synchronization and Communication Instructions: red.
KW_INLINE void atomic_or_shared(u32* word, u32 bits) {
#if defined(KW_HOST)
  __atomic_fetch_or(word, bits, __ATOMIC_RELAXED);
#else
  asm volatile("red.relaxed.cta.shared::cta.or.b32 [%0], %1;" ::"r"(static_cast<u32>(__cvta_generic_to_shared(word))), "r"(bits)
               : "memory");
#endif
}

}  // namespace kw
