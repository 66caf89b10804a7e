// What both wgmma attentions have in common: the ring of stages of kv rows.
#pragma once

#include "common/types.cuh"
#include "kernwright/specialisation.cuh"

namespace kw::mla {

constexpr int block_n = tile.block_n;  // keys of a stage
constexpr int stages = tile.stages;
constexpr int panels = specialisation.d_qk / 64;  // of 64 columns
constexpr int panel_bytes = block_n * 128;        // of a stage
constexpr int stage_bytes = panels * panel_bytes;
constexpr int warpgroup = 128;
constexpr int block_threads = tile.warps * 32;
constexpr float rescale_threshold = 8.0f;  // in base 2: how far a score may exceed the reference before O is rescaled

}  // namespace kw::mla
