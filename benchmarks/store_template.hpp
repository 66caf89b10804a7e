// The smallest kernel that does something: one thread stores a number. What a launch costs beside it is the launch itself.
#pragma once

#include <string_view>

#include "kernwright/template_source.hpp"

namespace kernwright::bench {

/// The host's side of the kernel's parameter struct.
struct StoreParams {
  long long* out = nullptr;
  long long value = 0;
};

inline constexpr std::string_view kStoreTemplate = "bench/store";
inline constexpr const char* kStoreEntry = "bench_store";

inline TemplateSource store_template() {
  TemplateSource source;
  source.manifest = R"(format = 1
name = "bench/store"
entry = "bench_store"
plan = "bench/store_plan.cuh"
fall_back = ["plain:m1n1s1w1"]
[[parameter]]
name = "unused"
type = "int"
range = [0, 0]
[[variant]]
name = "plain"
source = "bench/store.cu"
minimum_capability = "8.0"
host = true
block_m = [1]
block_n = [1]
stages = [1]
warps = [1]
)";
  source.files.push_back({"bench/store_plan.cuh", R"(#pragma once
#include "kernwright/specialisation.cuh"
namespace kw::bench {
struct StoreParams { long long* out; long long value; };
}
namespace kw {
constexpr Plan make_plan(const Specialisation&, const Tile&) {
  Plan plan;
  plan.threads = 1;
  plan.rows_per_block = 1;
  plan.params_bytes = sizeof(bench::StoreParams);
  return plan;
}
}
)"});
  source.files.push_back({"bench/store.cu", R"(#include "bench/store_plan.cuh"
extern "C" __global__ void bench_store(const __grid_constant__ kw::bench::StoreParams params) {
  if (params.value == 0) return;
  *params.out = params.value;
}
extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
)"});
  return source;
}

}  // namespace kernwright::bench
