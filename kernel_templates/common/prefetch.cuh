// Hints that memory will be read.
#pragma once

#include "common/types.cuh"

namespace kw {

/// Brings the cache line at `global` into the L2 cache. PTX ISA, Data Movement and Conversion Instructions: prefetch.
KW_INLINE void prefetch_to_l2(const void* global) {
#if defined(KW_HOST)
  (void)global;
#else
  asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(global)));
#endif
}

}  // namespace kw
