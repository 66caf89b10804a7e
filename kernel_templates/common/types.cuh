// Fixed-width names and the few macros that differ between NVRTC and a host compiler.
#pragma once

#if defined(__CUDACC__)
#define KW_INLINE __forceinline__
#define KW_PRAGMA(text) _Pragma(#text)
#define KW_UNROLL KW_PRAGMA(unroll)
#define KW_UNROLL_BY(times) KW_PRAGMA(unroll times)
#define KW_MAY_ALIAS
#else
#define KW_INLINE inline
#define KW_UNROLL
#define KW_UNROLL_BY(times)
#define KW_MAY_ALIAS [[gnu::may_alias]]
#endif

namespace kw {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

/// What one 16-byte load or store moves.
struct KW_MAY_ALIAS alignas(16) Vec16 {
  u32 word[4];
};
struct KW_MAY_ALIAS alignas(8) Vec8 {
  u32 word[2];
};

template <class Vector>
KW_INLINE Vector load_vector(const void* from) {
  return *static_cast<const Vector*>(from);
}
template <class Vector>
KW_INLINE void store_vector(void* to, const Vector& value) {
  *static_cast<Vector*>(to) = value;
}

template <class T>
constexpr T minimum(T a, T b) {
  return b < a ? b : a;
}
template <class T>
constexpr T maximum(T a, T b) {
  return a < b ? b : a;
}
template <class T>
constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}
template <class T>
constexpr T round_up(T a, T multiple) {
  return ceil_div(a, multiple) * multiple;
}

}  // namespace kw
