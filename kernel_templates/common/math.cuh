// fp32 functions.
#pragma once

#include "common/types.cuh"

namespace kw {

inline constexpr float log2_e = 1.44269504088896340736f;
inline constexpr float log_2 = 0.693147180559945309417f;
inline constexpr float largest_float = 3.402823466e+38f;
inline constexpr float infinity = __builtin_bit_cast(float, 0x7F800000u);

/// 2^x within 2^-22 of the value; 2^-inf is 0. PTX ISA, Floating Point Instructions: ex2.
KW_INLINE float exp2_approx(float x) {
#if defined(KW_HOST)
  return __builtin_exp2f(x);
#else
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

/// log2(x) for positive finite x, within 2^-22 (absolute in (0.5, 2), relative elsewhere). PTX ISA, Floating Point Instructions: lg2.
KW_INLINE float log2_approx(float x) {
#if defined(KW_HOST)
  return __builtin_log2f(x);
#else
  float result;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

/// The larger one; the other one where one is NaN. PTX ISA, Floating Point Instructions: max.
KW_INLINE float max_number(float a, float b) {
#if defined(KW_HOST)
  return __builtin_fmaxf(a, b);
#else
  float result;
  asm("max.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#endif
}

/// a · b + c rounded once. PTX ISA, Floating Point Instructions: fma.
KW_INLINE float fused_multiply_add(float a, float b, float c) {
#if defined(KW_HOST)
  return a * b + c;
#else
  float result;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(a), "f"(b), "f"(c));
  return result;
#endif
}

}  // namespace kw
