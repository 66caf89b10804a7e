// bfloat16: conversions between it and fp32.
#pragma once

#include "common/types.cuh"

namespace kw {

/// The upper half of an fp32. Storage only: arithmetic is done in fp32.
struct bf16 {
  u16 bits;
};
static_assert(sizeof(bf16) == 2);

/// Exact.
KW_INLINE float to_float(bf16 value) {
  return __builtin_bit_cast(float, static_cast<u32>(value.bits) << 16);
}

/// Two values in one register: the one at the lower address in the lower half.
KW_INLINE float low_float(u32 pair) {
  return __builtin_bit_cast(float, pair << 16);
}
KW_INLINE float high_float(u32 pair) {
  return __builtin_bit_cast(float, pair & 0xFFFF0000u);
}

/// Rounds to nearest, ties to even; NaN becomes 0x7FFF. PTX ISA, Data Movement and Conversion Instructions: cvt.
KW_INLINE u32 pack_bf16(float low, float high) {
#if defined(KW_HOST)
  const auto round = [](float value) -> u32 {
    if (value != value) return 0x7FFFu;
    const u32 bits = __builtin_bit_cast(u32, value);
    return (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  };
  return round(low) | (round(high) << 16);
#else
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#endif
}

KW_INLINE bf16 to_bf16(float value) {
  return bf16{static_cast<u16>(pack_bf16(value, 0.0f) & 0xFFFFu)};
}

}  // namespace kw
