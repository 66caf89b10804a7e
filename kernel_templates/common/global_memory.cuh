// Global memory, with a word about what becomes of it in the caches.
#pragma once

#include "common/types.cuh"

namespace kw {

/// Reads a word of 4 or 8 bytes, here and not where it is first used; it takes no place in the L1 cache. PTX ISA, Data Movement and
/// Conversion Instructions: ld, .L1::no_allocate.
template <class Word>
KW_INLINE Word load_once(const Word* from) {
  static_assert(sizeof(Word) == 4 || sizeof(Word) == 8);
#if defined(KW_HOST)
  return *from;
#else
  Word word;
  if constexpr (sizeof(Word) == 4) {
    asm volatile("ld.global.L1::no_allocate.b32 %0, [%1];" : "=r"(word) : "l"(__cvta_generic_to_global(from)) : "memory");
  } else {
    asm volatile("ld.global.L1::no_allocate.b64 %0, [%1];" : "=l"(word) : "l"(__cvta_generic_to_global(from)) : "memory");
  }
  return word;
#endif
}

/// The same, and the words beside it may be wanted too: what was read stays in the L1 cache.
KW_INLINE i64 load_here(const i64* from) {
#if defined(KW_HOST)
  return *from;
#else
  i64 word;
  asm volatile("ld.global.b64 %0, [%1];" : "=l"(word) : "l"(__cvta_generic_to_global(from)) : "memory");
  return word;
#endif
}

}  // namespace kw
