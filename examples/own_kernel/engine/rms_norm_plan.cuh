// What a launch needs, known before anything is compiled.
#pragma once

#include "engine/rms_norm_params.cuh"
#include "kernwright/specialisation.cuh"

namespace kw {

constexpr Plan make_plan(const Specialisation& specialisation, const Tile& tile) {
  Plan plan;
  plan.params_bytes = static_cast<int>(sizeof(engine::RmsNormParams));
  if (tile.warps != tile.block_m) return plan;  // one warp a row
  plan.threads = 32 * tile.warps;
  plan.dynamic_shared = tile.block_m * specialisation.hidden * static_cast<int>(sizeof(float));
  plan.rows_per_block = tile.block_m;
  return plan;
}

}  // namespace kw
