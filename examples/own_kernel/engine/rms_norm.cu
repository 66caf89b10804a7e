#include "common/shared_memory.cuh"
#include "common/warp.cuh"
#include "engine/rms_norm_plan.cuh"

namespace engine {

// A function that NVRTC knows by itself goes by its built-in name on host, where no standard header is there.
#if defined(KW_HOST)
inline float square_root(float x) {
  return __builtin_sqrtf(x);
}
#else
inline float square_root(float x) {
  return sqrtf(x);
}
#endif

}  // namespace engine

extern "C" __global__ void __launch_bounds__(32 * kw::tile.warps) engine_rms_norm(const __grid_constant__ engine::RmsNormParams params) {
  constexpr int hidden = kw::specialisation.hidden;
  const long long row = static_cast<long long>(blockIdx.x) * kw::tile.block_m + kw::warp_id();
  if (row >= params.rows) return;

  // A lane reads back only what it wrote itself, so the two passes need no barrier.
  float* kept = reinterpret_cast<float*>(kw::dynamic_shared()) + kw::warp_id() * hidden;
  float squares = 0.0f;
  for (int column = kw::lane_id(); column < hidden; column += kw::tile.block_n) {
    const float value = params.x[row * hidden + column];
    kept[column] = value;
    squares += value * value;
  }
  squares = kw::reduce_lanes<32>(squares, [](float a, float b) { return a + b; });
  const float scale = 1.0f / engine::square_root(squares / static_cast<float>(hidden) + params.epsilon);
  for (int column = kw::lane_id(); column < hidden; column += kw::tile.block_n) {
    params.out[row * hidden + column] = kept[column] * scale * params.weight[column];
  }
}

extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
