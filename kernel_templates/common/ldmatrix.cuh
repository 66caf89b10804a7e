// 8 × 8 matrices of 16-bit elements from shared memory into mma fragments.
//
// Lane 8·i + r gives the 16-byte aligned address of row r of matrix i; register i of lane l then holds elements 2·(l mod 4) and
// 2·(l mod 4) + 1 of row l / 4 of matrix i (of column l / 4, transposed). All 32 lanes take part.
// PTX ISA, Warp-level Matrix Instructions: ldmatrix.
#pragma once

#include "common/shared_memory.cuh"
#include "common/types.cuh"
#include "common/warp.cuh"

namespace kw {

#if defined(KW_HOST)
namespace detail {
template <int matrices, bool transposed>
KW_INLINE void ldmatrix(u32 (&fragment)[matrices], SharedAddress row) {
  unsigned char* const* rows = simt::warp_exchange(row.pointer, full_warp);
  const int major = lane_id() / 4;
  const int minor = lane_id() % 4 * 2;
  for (int i = 0; i < matrices; ++i) {
    u16 element[2];
    for (int e = 0; e < 2; ++e) {
      const int r = transposed ? minor + e : major;
      const int c = transposed ? major : minor + e;
      __builtin_memcpy(&element[e], rows[8 * i + r] + 2 * c, 2);
    }
    fragment[i] = static_cast<u32>(element[0]) | (static_cast<u32>(element[1]) << 16);
  }
}
}  // namespace detail
#endif

KW_INLINE void ldmatrix_x1(u32 (&fragment)[1], SharedAddress row) {
#if defined(KW_HOST)
  detail::ldmatrix<1, false>(fragment, row);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(fragment[0]) : "r"(row.offset) : "memory");
#endif
}

KW_INLINE void ldmatrix_x2(u32 (&fragment)[2], SharedAddress row) {
#if defined(KW_HOST)
  detail::ldmatrix<2, false>(fragment, row);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(fragment[0]), "=r"(fragment[1])
               : "r"(row.offset)
               : "memory");
#endif
}

KW_INLINE void ldmatrix_x4(u32 (&fragment)[4], SharedAddress row) {
#if defined(KW_HOST)
  detail::ldmatrix<4, false>(fragment, row);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(row.offset)
               : "memory");
#endif
}

KW_INLINE void ldmatrix_x1_transposed(u32 (&fragment)[1], SharedAddress row) {
#if defined(KW_HOST)
  detail::ldmatrix<1, true>(fragment, row);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(fragment[0]) : "r"(row.offset) : "memory");
#endif
}

KW_INLINE void ldmatrix_x2_transposed(u32 (&fragment)[2], SharedAddress row) {
#if defined(KW_HOST)
  detail::ldmatrix<2, true>(fragment, row);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(fragment[0]), "=r"(fragment[1])
               : "r"(row.offset)
               : "memory");
#endif
}

KW_INLINE void ldmatrix_x4_transposed(u32 (&fragment)[4], SharedAddress row) {
#if defined(KW_HOST)
  detail::ldmatrix<4, true>(fragment, row);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(row.offset)
               : "memory");
#endif
}

}  // namespace kw
