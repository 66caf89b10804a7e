// 8 × 8 matrices of 16-bit elements from mma fragments into shared memory: ldmatrix the other way round. Capability 9.0 and later, and for
// the device only, like the products whose operands it writes. PTX ISA, Warp-level Matrix Instructions: stmatrix.
#pragma once

#include "common/shared_memory.cuh"
#include "common/types.cuh"

namespace kw {

/// Lane 8·i + r gives the 16-byte aligned address of row r of matrix i; register i of lane l holds elements 2·(l mod 4) and
/// 2·(l mod 4) + 1 of row l / 4 of matrix i. All 32 lanes take part.
KW_INLINE void stmatrix_x4(SharedAddress row, const u32 (&fragment)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row.offset), "r"(fragment[0]), "r"(fragment[1]),
               "r"(fragment[2]), "r"(fragment[3])
               : "memory");
}

/// The same, each matrix transposed: lane 8·i + c gives the address of column c of matrix i, whose elements become neighbours.
KW_INLINE void stmatrix_x4_transposed(SharedAddress column, const u32 (&fragment)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(column.offset), "r"(fragment[0]),
               "r"(fragment[1]), "r"(fragment[2]), "r"(fragment[3])
               : "memory");
}
/// Of two matrices: the addresses come from the lanes 0 to 15.
KW_INLINE void stmatrix_x2_transposed(SharedAddress column, const u32 (&fragment)[2]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(column.offset), "r"(fragment[0]), "r"(fragment[1])
               : "memory");
}

}  // namespace kw
