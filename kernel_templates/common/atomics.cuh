// Relaxed atomics: they order nothing but themselves.
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

/// As atomic_or_shared; the old word. PTX ISA: atom.
KW_INLINE u32 atomic_fetch_or_shared(u32* word, u32 bits) {
#if defined(KW_HOST)
  return __atomic_fetch_or(word, bits, __ATOMIC_RELAXED);
#else
  u32 old;
  asm volatile("atom.relaxed.cta.shared::cta.or.b32 %0, [%1], %2;"
               : "=r"(old)
               : "r"(static_cast<u32>(__cvta_generic_to_shared(word))), "r"(bits)
               : "memory");
  return old;
#endif
}

/// *word += value, in global memory, for all blocks; the old value. PTX ISA: atom.
KW_INLINE u32 atomic_add_global(u32* word, u32 value) {
#if defined(KW_HOST)
  return __atomic_fetch_add(word, value, __ATOMIC_RELAXED);
#else
  u32 old;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(__cvta_generic_to_global(word)), "r"(value) : "memory");
  return old;
#endif
}

}  // namespace kw
