// The artifact that tests/cases/entry_v1.py writes, built from the library's own types.
#pragma once

#include <string>

#include "artifact.hpp"
#include "key/key.hpp"

namespace kernwright::tests {

inline BuildRequest example_request() {
  BuildRequest request;
  request.template_name = "demo/scale";
  request.entry = "scale";
  request.specialisation.set("heads", 8).set("dtype", DType::bf16);
  request.tiles = {Tile{"mma", 64, 32, 2, 8}};
  request.target = *Target::parse("sm_90a");
  request.sources = {{"demo/scale_mma.cu", "#include \"demo/scale_plan.cuh\"\nextern \"C\" __global__ void scale() {}\n"},
                     {"demo/scale_plan.cuh", "#pragma once\n// caf\xc3\xa9\n"},
                     {"kernwright/specialisation.cuh", "#pragma once\n"}};
  request.options = {"--std=c++20", "-lineinfo"};
  return request;
}

inline CompilerIdentity example_compiler() {
  return {"nvrtc", "13.0", {{"libnvrtc", "0123abcd"}, {"libnvrtc-builtins", "feedbeef"}}};
}

inline Artifact example_artifact() {
  Artifact artifact;
  artifact.request = example_request();
  artifact.compiler = example_compiler();
  artifact.key = entry_key(artifact.request, artifact.compiler);
  artifact.plans = {Plan{.version = 1, .threads = 256, .dynamic_shared = 73728, .rows_per_block = 64, .params_bytes = 48}};
  artifact.resources = {.registers = 96, .static_shared = {1024}, .stack_frame = {16}, .spill_stores = {4}, .spill_loads = {8}};
  for (int i = 0; i < 1000; ++i) artifact.binary.push_back(static_cast<std::byte>(i * 7 % 256));
  artifact.log = std::string("ptxas info : Used 96 registers\0and more\n", 40);
  artifact.compile_seconds = 0.125;
  return artifact;
}

/// Another tile of the example: another key, another binary of `size` bytes.
inline Artifact example_artifact_with(int block_m, std::size_t size) {
  Artifact artifact = example_artifact();
  artifact.request.tiles = {Tile{"mma", block_m, 32, 2, 8}};
  artifact.key = entry_key(artifact.request, artifact.compiler);
  artifact.binary.assign(size, static_cast<std::byte>(block_m));
  return artifact;
}

}  // namespace kernwright::tests
