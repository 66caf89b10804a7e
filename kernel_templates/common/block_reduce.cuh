// A value from every thread of a block, combined.
#pragma once

#include "common/barrier.cuh"
#include "common/types.cuh"
#include "common/warp.cuh"

namespace kw {

/// `combine` over the block of `warps` whole warps, in every thread. `scratch` has a word for each warp, and is free again when it returns.
template <int warps, class Combine>
KW_INLINE u32 reduce_block(u32 value, u32* scratch, Combine combine) {
  value = reduce_lanes<32>(value, combine);
  if (lane_id() == 0) scratch[warp_id()] = value;
  block_sync();
  value = scratch[0];
  for (int warp = 1; warp < warps; ++warp) value = combine(value, scratch[warp]);
  block_sync();
  return value;
}

}  // namespace kw
