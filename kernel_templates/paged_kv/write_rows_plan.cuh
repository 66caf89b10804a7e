// paged_kv/write_rows: the plan, and how a row is cut into vectors.
//
// A row is moved in 16-byte vectors by one warp: both parts are whole numbers of them.
#pragma once

#include "kernwright/specialisation.cuh"
#include "paged_kv/write_rows_params.cuh"

namespace kw::paged_kv {

constexpr int element_bytes(DType dtype) {
  switch (dtype) {
    case DType::u8: return 1;
    case DType::bf16:
    case DType::f16: return 2;
    case DType::f32:
    case DType::i32: return 4;
    case DType::i64: return 8;
  }
  return 0;
}

struct WriteRowsLayout {
  int latent_bytes = 0;
  int rope_bytes = 0;
};

constexpr WriteRowsLayout write_rows_layout(const Specialisation& specialisation) {
  const int bytes = element_bytes(specialisation.dtype);
  return {specialisation.latent_width * bytes, specialisation.rope_width * bytes};
}

}  // namespace kw::paged_kv

namespace kw {

constexpr Plan make_plan(const Specialisation& specialisation, const Tile& tile) {
  const paged_kv::WriteRowsLayout layout = paged_kv::write_rows_layout(specialisation);
  Plan plan;
  plan.params_bytes = static_cast<int>(sizeof(paged_kv::WriteRowsParams));
  const bool has_meaning = specialisation.has_table != 0 || specialisation.multiplier == 1;
  if (!has_meaning || layout.latent_bytes % 16 != 0 || layout.rope_bytes % 16 != 0) return plan;
  plan.threads = tile.warps * 32;
  plan.rows_per_block = tile.warps;
  return plan;
}

}  // namespace kw
