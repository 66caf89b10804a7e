// Tensor-core products of one warp.
#pragma once

#include "common/bf16.cuh"
#include "common/types.cuh"
#include "common/warp.cuh"

namespace kw {

/// d += a · b: a is 16 × 16 bf16 by rows, b is 16 × 8 bf16 by columns, d is 16 × 8 fp32. With g = lane / 4 and t = lane mod 4, and two
/// bf16 a register (lower half first):
///   a[0]: row g,     columns 2t, 2t + 1       a[1]: row g + 8, the same columns     a[2], a[3]: rows g, g + 8, columns 2t + 8, 2t + 9
///   b[0]: rows 2t, 2t + 1 of column g         b[1]: rows 2t + 8, 2t + 9 of column g
///   d[0], d[1]: row g, columns 2t, 2t + 1     d[2], d[3]: row g + 8, the same columns
/// PTX ISA, Warp-level Matrix Instructions: mma.sync, m16n8k16 with .bf16 operands.
///
/// A device adds the 16 exact products and d in an order and with a truncation that the manual leaves open. The host body adds them to d
/// one by one in ascending k, each sum rounded to nearest: the two agree to within fp32 rounding, not bit by bit.
KW_INLINE void mma_m16n8k16_bf16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#if defined(KW_HOST)
  struct Operands {
    u32 a[4];
    u32 b[2];
  };
  const Operands* lanes = simt::warp_exchange(Operands{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}}, full_warp);
  const int g = lane_id() / 4;
  const int t = lane_id() % 4;
  for (int k = 0; k < 16; k += 2) {
    const int pair = k % 8 / 2;
    const u32 row_low = lanes[g * 4 + pair].a[k / 8 * 2];
    const u32 row_high = lanes[g * 4 + pair].a[k / 8 * 2 + 1];
    const u32 column_low = lanes[2 * t * 4 + pair].b[k / 8];
    const u32 column_high = lanes[(2 * t + 1) * 4 + pair].b[k / 8];
    d[0] = (d[0] + low_float(row_low) * low_float(column_low)) + high_float(row_low) * high_float(column_low);
    d[1] = (d[1] + low_float(row_low) * low_float(column_high)) + high_float(row_low) * high_float(column_high);
    d[2] = (d[2] + low_float(row_high) * low_float(column_low)) + high_float(row_high) * high_float(column_low);
    d[3] = (d[3] + low_float(row_high) * low_float(column_high)) + high_float(row_high) * high_float(column_high);
  }
#else
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

}  // namespace kw
