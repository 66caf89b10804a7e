// Programmatic dependent launch: a kernel whose plan says programmatic_launch may start before the kernel in front of it on the stream has
// ended. Capability 9.0 and later; elsewhere, and on host, kernels follow one another and there is nothing to do.
#pragma once

#include "common/types.cuh"

#if !defined(KW_HOST) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define KW_DEPENDENT_LAUNCH 1
#else
#define KW_DEPENDENT_LAUNCH 0
#endif

namespace kw {

/// Lets the next kernel start once every block of this one has come here or ended. What it may read is decided by its own wait. PTX ISA,
/// Parallel Synchronization and Communication Instructions: griddepcontrol.launch_dependents.
KW_INLINE void launch_dependents() {
#if KW_DEPENDENT_LAUNCH
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Until the kernel in front has ended and its writes are seen. PTX ISA: griddepcontrol.wait.
KW_INLINE void wait_for_previous_kernel() {
#if KW_DEPENDENT_LAUNCH
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace kw
