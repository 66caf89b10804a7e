// A template of the tests' own: out[i] = factor * in[i] through shared memory, whose size the tile decides.
#pragma once

#include <string>

#include "kernwright/kernel.hpp"
#include "kernwright/template_source.hpp"

namespace kernwright::cases {

/// The host's side of the kernel's parameter struct.
struct ScaleParams {
  const float* in = nullptr;
  float* out = nullptr;
  long long count = 0;
};

/// block_n is the dynamic shared memory in KiB; the fall-back order is n1024, n200, n40, n1. `comment` changes the source and nothing else.
inline TemplateSource scale_template(const std::string& comment = "") {
  TemplateSource source;
  source.manifest = R"(format = 1
name = "test/scale"
entry = "test_scale"
plan = "test/scale_plan.cuh"
fall_back = ["plain:m1n1024s1w1", "plain:m1n200s1w1", "plain:m1n40s1w1", "plain:m1n1s1w1"]
[[parameter]]
name = "factor"
type = "int"
range = [0, 1000]
[[variant]]
name = "plain"
source = "test/scale.cu"
minimum_capability = "8.0"
host = true
block_m = [1]
block_n = [1, 40, 200, 1024]
stages = [1]
warps = [1, 2]
)";
  source.files.push_back({"test/scale_plan.cuh", R"(#pragma once
#include "kernwright/specialisation.cuh"
namespace kw::test {
struct ScaleParams { const float* in; float* out; long long count; };
}
namespace kw {
constexpr Plan make_plan(const Specialisation&, const Tile& tile) {
  Plan plan;
  plan.threads = 32 * tile.warps;
  plan.dynamic_shared = 1024 * tile.block_n;
  plan.rows_per_block = 32 * tile.warps;
  plan.params_bytes = sizeof(test::ScaleParams);
  return plan;
}
}
)"});
  source.files.push_back({"test/scale.cu", "// " + comment + R"(
#include "test/scale_plan.cuh"
#include "common/shared_memory.cuh"
extern "C" __global__ void test_scale(const __grid_constant__ kw::test::ScaleParams params) {
  if (params.count == 0) return;
  float* staged = static_cast<float*>(static_cast<void*>(kw::dynamic_shared()));
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const bool inside = i < params.count;
  staged[threadIdx.x] = inside ? params.in[i] : 0.0f;
  __syncthreads();
  const float mirrored = staged[blockDim.x - 1 - threadIdx.x];
  __syncthreads();
  staged[blockDim.x - 1 - threadIdx.x] = mirrored;
  __syncthreads();
  if (inside) params.out[i] = static_cast<float>(kw::specialisation.factor) * staged[threadIdx.x];
}
extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
)"});
  return source;
}

}  // namespace kernwright::cases
