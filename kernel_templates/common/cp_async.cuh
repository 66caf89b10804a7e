// Asynchronous copies from global to shared memory, 16 bytes each.
#pragma once

#include "common/shared_memory.cuh"
#include "common/types.cuh"

namespace kw {

/// Starts a copy of 16 bytes past the L1 cache. `source_bytes` (0 to 16) are read, the rest of the 16 is filled with zeros: with 0 nothing
/// is read and `global` need not be readable. Both addresses are 16-byte aligned. The bytes are there for this thread after
/// cp_async_wait, for others after a barrier behind that. PTX ISA, Data Movement and Conversion Instructions: cp.async.
KW_INLINE void cp_async_16(SharedAddress shared, const void* global, u32 source_bytes) {
#if defined(KW_HOST)
  simt::async_copy(shared.pointer, global, 16, source_bytes);
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared.offset), "l"(__cvta_generic_to_global(global)),
               "r"(source_bytes)
               : "memory");
#endif
}

/// Makes the copies started since the last commit one group. PTX ISA: cp.async.commit_group.
KW_INLINE void cp_async_commit() {
#if defined(KW_HOST)
  simt::async_commit();
#else
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until at most `groups_left` of this thread's newest groups are still under way. PTX ISA: cp.async.wait_group.
template <int groups_left>
KW_INLINE void cp_async_wait() {
#if defined(KW_HOST)
  simt::async_wait(static_cast<unsigned>(groups_left));
#else
  asm volatile("cp.async.wait_group %0;" ::"n"(groups_left) : "memory");
#endif
}

}  // namespace kw
