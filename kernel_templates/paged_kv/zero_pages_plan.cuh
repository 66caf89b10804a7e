// paged_kv/zero_pages: the plan. An envelope is bytes: nothing of a template's constants matters.
#pragma once

#include "kernwright/specialisation.cuh"
#include "paged_kv/zero_pages_params.cuh"

namespace kw {

constexpr Plan make_plan(const Specialisation&, const Tile& tile) {
  Plan plan;
  plan.params_bytes = static_cast<int>(sizeof(paged_kv::ZeroPagesParams));
  if (!(tile.warps >= 1)) return plan;
  plan.threads = tile.warps * 32;
  plan.rows_per_block = 1;
  return plan;
}

}  // namespace kw
