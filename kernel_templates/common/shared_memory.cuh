// A block's dynamic shared memory, and its addresses as the PTX instructions take them.
#pragma once

#include "common/types.cuh"

namespace kw {

/// The block's dynamic shared memory: Plan::dynamic_shared bytes, aligned to 1,024.
KW_INLINE unsigned char* dynamic_shared() {
#if defined(KW_HOST)
  return static_cast<unsigned char*>(simt::dynamic_shared());
#else
  extern __shared__ __align__(1024) unsigned char kw_dynamic_shared_bytes[];
  return kw_dynamic_shared_bytes;
#endif
}

/// An address in shared memory: 32 bits in the .shared state space on a device (PTX ISA, State Spaces: Shared State Space), a pointer on
/// host.
struct SharedAddress {
#if defined(KW_HOST)
  unsigned char* pointer;
#else
  u32 offset;
#endif
};

KW_INLINE SharedAddress shared_address(void* pointer) {
#if defined(KW_HOST)
  return {static_cast<unsigned char*>(pointer)};
#else
  return {static_cast<u32>(__cvta_generic_to_shared(pointer))};
#endif
}

KW_INLINE SharedAddress operator+(SharedAddress address, u32 bytes) {
#if defined(KW_HOST)
  return {address.pointer + bytes};
#else
  return {address.offset + bytes};
#endif
}

}  // namespace kw
