// Exchange among the 32 threads of a warp. Every function here is met by all 32 lanes together.
#pragma once

#include "common/types.cuh"

namespace kw {

inline constexpr u32 full_warp = 0xFFFFFFFFu;

KW_INLINE int lane_id() {
  return static_cast<int>(threadIdx.x % 32u);
}
KW_INLINE int warp_id() {
  return static_cast<int>(threadIdx.x / 32u);
}

/// threadIdx.x, read again: for code that runs seldom, beside a loop that has no register to keep it, or what follows from it, in.
/// PTX ISA, Special Registers: %tid.
KW_INLINE u32 reread_thread_index() {
#if defined(KW_HOST)
  return threadIdx.x;
#else
  u32 index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return index;
#endif
}

// Shuffles of one 32-bit register. PTX ISA, Data Movement and Conversion Instructions: shfl.sync.

/// The value of lane (own lane xor `lanes`).
template <class T>
KW_INLINE T shuffle_xor(T value, int lanes) {
  static_assert(sizeof(T) == 4);
#if defined(KW_HOST)
  return simt::warp_exchange(value, full_warp)[lane_id() ^ lanes];
#else
  u32 result;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(result) : "r"(__builtin_bit_cast(u32, value)), "r"(lanes));
  return __builtin_bit_cast(T, result);
#endif
}

/// The value of lane (own lane - `lanes`), or the own value where there is none.
template <class T>
KW_INLINE T shuffle_up(T value, int lanes) {
  static_assert(sizeof(T) == 4);
#if defined(KW_HOST)
  const int from = lane_id() - lanes;
  return simt::warp_exchange(value, full_warp)[from < 0 ? lane_id() : from];
#else
  u32 result;
  asm volatile("shfl.sync.up.b32 %0, %1, %2, 0x0, 0xffffffff;" : "=r"(result) : "r"(__builtin_bit_cast(u32, value)), "r"(lanes));
  return __builtin_bit_cast(T, result);
#endif
}

/// The value of lane `lane`.
template <class T>
KW_INLINE T shuffle(T value, int lane) {
  static_assert(sizeof(T) == 4);
#if defined(KW_HOST)
  return simt::warp_exchange(value, full_warp)[lane & 31];
#else
  u32 result;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(result) : "r"(__builtin_bit_cast(u32, value)), "r"(lane));
  return __builtin_bit_cast(T, result);
#endif
}

/// Bit l: lane l's predicate. PTX ISA, Parallel Synchronization and Communication Instructions: vote.sync.
KW_INLINE u32 ballot(bool predicate) {
#if defined(KW_HOST)
  const bool* lanes = simt::warp_exchange(predicate, full_warp);
  u32 votes = 0;
  for (u32 lane = 0; lane < 32; ++lane) votes |= static_cast<u32>(lanes[lane]) << lane;
  return votes;
#else
  u32 votes;
  asm volatile("{ .reg .pred vote; setp.ne.u32 vote, %1, 0; vote.sync.ballot.b32 %0, vote, 0xffffffff; }"
               : "=r"(votes)
               : "r"(static_cast<u32>(predicate)));
  return votes;
#endif
}
KW_INLINE bool any_lane(bool predicate) {
  return ballot(predicate) != 0;
}
KW_INLINE bool all_lanes(bool predicate) {
  return ballot(predicate) == full_warp;
}

/// `combine` over groups of `width` neighbouring lanes (a power of two up to 32), the result in every lane. The same tree everywhere, so
/// every lane holds the same bits where `combine` commutes.
template <int width, class T, class Combine>
KW_INLINE T reduce_lanes(T value, Combine combine) {
  KW_UNROLL
  for (int lanes = width / 2; lanes > 0; lanes /= 2) value = combine(value, shuffle_xor(value, lanes));
  return value;
}

/// The sum over the lanes up to and including the own one.
KW_INLINE u32 inclusive_sum(u32 value) {
  KW_UNROLL
  for (int lanes = 1; lanes < 32; lanes *= 2) {
    const u32 below = shuffle_up(value, lanes);
    if (lane_id() >= lanes) value += below;
  }
  return value;
}

}  // namespace kw
