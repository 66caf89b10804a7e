// What a launch needs, and what stands where in a block's shared memory: the ring's stages, two slots for the token that is taken next, and
// (bulk) a barrier a stage.
#pragma once

#include "common/types.cuh"
#include "gather_limit/gather_params.cuh"
#include "kernwright/specialisation.cuh"

namespace gather_limit {

inline constexpr int row_bytes = 1152;     // 576 bf16
inline constexpr int threads_per_row = 8;  // of the copies: a piece of 16 bytes each, 128 bytes of the row at once

constexpr int stage_bytes(const kw::Tile& tile) {
  return tile.block_n * row_bytes;
}
constexpr int taken_at(const kw::Tile& tile) {
  return tile.stages * stage_bytes(tile);
}
constexpr int barriers_at(const kw::Tile& tile) {
  return taken_at(tile) + 2 * static_cast<int>(sizeof(kw::u32));
}
constexpr int shared_bytes(const kw::Tile& tile) {
  return barriers_at(tile) + tile.stages * static_cast<int>(sizeof(kw::u64));
}

/// Shared memory of a multiprocessor, KiB (CUDA C++ programming guide, "Technical specifications per compute capability"); a block takes 1
/// KiB beside its own.
constexpr int multiprocessor_kib(int capability) {
  if (capability == 80 || capability == 87) return 164;
  if (capability == 86 || capability == 89 || capability >= 120) return 100;
  return 228;
}
constexpr int resident_blocks(const kw::Tile& tile) {
  return kw::maximum(1, kw::minimum(3, multiprocessor_kib(kw::target_capability) * 1024 / (shared_bytes(tile) + 1024)));
}

}  // namespace gather_limit

namespace kw {

constexpr Plan make_plan(const Specialisation&, const Tile& tile) {
  Plan plan;
  plan.params_bytes = static_cast<int>(sizeof(gather_limit::GatherParams));
  const int threads = 32 * tile.warps;
  if (tile.variant == Variant::copies && tile.block_n * gather_limit::threads_per_row % threads != 0) return plan;  // threads without a row
  plan.threads = threads;
  plan.dynamic_shared = gather_limit::shared_bytes(tile);
  plan.rows_per_block = 1;
  plan.blocks_per_sm = gather_limit::resident_blocks(tile);
  return plan;
}

}  // namespace kw
