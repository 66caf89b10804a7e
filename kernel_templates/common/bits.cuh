// Population count and bit search.
#pragma once

#include "common/types.cuh"

namespace kw {

/// Number of set bits. PTX ISA, Integer Arithmetic Instructions: popc.
KW_INLINE int popcount(u32 value) {
#if defined(KW_HOST)
  return __builtin_popcount(value);
#else
  int count;
  asm("popc.b32 %0, %1;" : "=r"(count) : "r"(value));
  return count;
#endif
}
KW_INLINE int popcount(u64 value) {
#if defined(KW_HOST)
  return __builtin_popcountll(value);
#else
  int count;
  asm("popc.b64 %0, %1;" : "=r"(count) : "l"(value));
  return count;
#endif
}

/// Index of the lowest set bit; `value` is not 0. PTX ISA, Integer Arithmetic Instructions: brev, bfind (.shiftamt counts leading zeros).
KW_INLINE int lowest_bit(u32 value) {
#if defined(KW_HOST)
  return __builtin_ctz(value);
#else
  int index;
  asm("{ .reg .b32 reversed; brev.b32 reversed, %1; bfind.shiftamt.u32 %0, reversed; }" : "=r"(index) : "r"(value));
  return index;
#endif
}

}  // namespace kw
