// CUDA C++ on the host interpreter: included before the first line of every template source that the system's C++ compiler compiles.
// It includes no standard header, so that a specialisation compiles in a fraction of a second.
//
// The primitives of namespace kw::simt are what the host bodies in kernel_templates/common stand on. Each that can wait takes the place
// it was called from, which a diagnosis names: a wrapper that wants its caller's line named forwards one itself:
//   inline void my_sync(kw::simt::Location where = kw::simt::here()) { kw::simt::block_barrier(1, 64, where); }
#pragma once

#include "abi.hpp"

#define KW_HOST 1

#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
// Kept and exported although no host code reads it: the runtime reads kw_plan from the object.
#define __constant__ __attribute__((used, visibility("default")))
// One copy a block. A worker runs one block at a time, so thread_local is that copy; where one block runs at a time anyway an ordinary
// static serves, which AddressSanitizer guards and the OS threads of mode `threads` share.
#if defined(KW_HOST_PLAIN_STATIC_SHARED)
#define __shared__ static
#else
#define __shared__ static thread_local
#endif

using size_t = decltype(sizeof(0));

namespace kw::simt {

// The CUDA thread that runs on this OS thread. The interpreter moves it at every switch, hence the address in kw_simt_object.
static thread_local ThreadContext* current_thread = nullptr;

inline const ThreadContext& self() {
  return *current_thread;
}

// The caller's place, as a default argument.
constexpr Location here(const char* file = __builtin_FILE(), unsigned line = static_cast<unsigned>(__builtin_LINE())) {
  return {file, line};
}

inline unsigned lane_id() {
  return self().thread.x % kWarpSize;
}
inline unsigned warp_id() {
  return self().thread.x / kWarpSize;
}

// The block's dynamic shared memory, aligned to 1,024 bytes, every byte 0xFF (a NaN in bf16 and fp32) when the block starts.
inline void* dynamic_shared() {
  return self().dynamic_shared;
}
inline unsigned dynamic_shared_bytes() {
  return self().dynamic_shared_bytes;
}

// PTX ISA, bar.sync id, threads: named barriers 0 to 15; `threads` is a multiple of 32 or the whole block.
inline void block_barrier(unsigned id, unsigned threads, Location where = here()) {
  self().primitives->barrier(current_thread, id, threads, where);
}

// A collective of the lanes in `mask`: each gives a value, each gets a pointer to all 32 by lane, valid until its own next collective.
// Entries of lanes outside the mask are unspecified. Lanes that the block does not have are ignored in the mask.
template <class T>
inline const T* warp_exchange(const T& mine, unsigned mask = ~0u, Location where = here()) {
  static_assert(__is_trivially_copyable(T), "a value that lanes exchange is copied bytewise");
  static_assert(sizeof(T) <= kMaxExchangeBytes && alignof(T) <= 64);
  return static_cast<const T*>(self().primitives->exchange(current_thread, &mine, sizeof(T), mask, where));
}

// PTX ISA, cp.async: copy_bytes is 4, 8 or 16 and both addresses are aligned to it; the bytes past source_bytes are zeros, and with
// source_bytes 0 `global` is not looked at. Nothing is copied before the wait, so that a missing wait shows.
inline void async_copy(void* shared, const void* global, unsigned copy_bytes, unsigned source_bytes, Location where = here()) {
  self().primitives->async_copy(current_thread, shared, global, copy_bytes, source_bytes, where);
}
// cp.async.commit_group
inline void async_commit() {
  self().primitives->async_commit(current_thread);
}
// cp.async.wait_group N: all but the newest N committed groups are copied.
inline void async_wait(unsigned groups_left) {
  self().primitives->async_wait(current_thread, groups_left);
}
// cp.async.wait_all
inline void async_wait_all() {
  async_commit();
  async_wait(0);
}

template <class Params>
struct EntryType;
template <>
struct EntryType<void (*)()> {
  static constexpr unsigned params_bytes = 0;
  static void call(void (*entry)(), const void*) { entry(); }
};
template <class Params>
struct EntryType<void (*)(Params)> {
  static_assert(__is_trivially_copyable(Params), "a kernel's parameter struct is copied bytewise");
  static constexpr unsigned params_bytes = sizeof(Params);
  static void call(void (*entry)(Params), const void* bytes) {
    union Aligned {
      Aligned() {}
      ~Aligned() {}
      Params params;
    } aligned;
    __builtin_memcpy(static_cast<void*>(&aligned), bytes, sizeof(Params));
    entry(aligned.params);
  }
};

}  // namespace kw::simt

#define threadIdx (::kw::simt::self().thread)
#define blockIdx (::kw::simt::self().block)
#define blockDim (::kw::simt::self().block_size)
#define gridDim (::kw::simt::self().grid_size)
#define warpSize (32)

inline void __syncthreads(::kw::simt::Location where = ::kw::simt::here()) {
  ::kw::simt::block_barrier(0, ::kw::simt::self().block_size.x, where);
}
inline void __syncwarp(unsigned mask = ~0u, ::kw::simt::Location where = ::kw::simt::here()) {
  ::kw::simt::self().primitives->exchange(::kw::simt::current_thread, nullptr, 0, mask, where);
}

// The backend ends the translation unit of a kernel with this.
#define KW_SIMT_ENTRY(entry)                                                                                                         \
  extern "C" __attribute__((used, visibility("default")))                                                                            \
  const ::kw::simt::ObjectInterface kw_simt_object{::kw::simt::kAbiVersion, ::kw::simt::EntryType<decltype(&(entry))>::params_bytes, \
                                                   [](::kw::simt::ThreadContext* thread, const void* params) {                       \
                                                     ::kw::simt::current_thread = thread;                                            \
                                                     ::kw::simt::EntryType<decltype(&(entry))>::call(&(entry), params);              \
                                                   },                                                                                \
                                                   [] { return &::kw::simt::current_thread; }};
