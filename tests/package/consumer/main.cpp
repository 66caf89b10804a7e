// Built against an install tree: registers a kernel of its own, prepares it on the host interpreter and launches it.
#include <kernwright/runtime.hpp>
#include <kernwright/sparse_mla_prefill.hpp>

#include <cstdint>
#include <cstdio>
#include <iterator>
#include <span>
#include <vector>

namespace {

using namespace kernwright;

constexpr const char* kManifest = R"(
format = 1
name = "consumer/affine"
entry = "consumer_affine"
plan = "consumer/plan.cuh"
fall_back = ["portable:m64n1s1w2"]
[[parameter]]
name = "factor"
type = "int"
range = [1, 100]
[[variant]]
name = "portable"
source = "consumer/affine.cu"
block_m = [64]
block_n = [1]
stages = [1]
warps = [2]
)";

constexpr const char* kPlan = R"(
#pragma once
#include "kernwright/specialisation.cuh"
struct Params { int* values; int count; int offset; };
namespace kw {
constexpr Plan make_plan(const Specialisation&, const Tile& tile) {
  Plan plan;
  plan.threads = tile.warps * 32;
  plan.rows_per_block = tile.block_m;
  plan.params_bytes = static_cast<int>(sizeof(Params));
  return plan;
}
}
)";

constexpr const char* kSource = R"(
#include "consumer/plan.cuh"
extern "C" __global__ void consumer_affine(const __grid_constant__ Params params) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < params.count) params.values[i] = params.values[i] * kw::specialisation.factor + params.offset;
}
extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
)";

struct Params {
  int* values;
  int count;
  int offset;
};

Result<std::vector<int>> affine(const Runtime& runtime, std::vector<int> values) {
  auto done = runtime.register_template({kManifest, {{"consumer/affine.cu", kSource}, {"consumer/plan.cuh", kPlan}}});
  if (!done) return fail(std::move(done.error()));
  PrepareRequest request;
  request.template_name = "consumer/affine";
  request.specialisation.set("factor", 7);
  request.device = DeviceId::host();
  request.params_bytes = sizeof(Params);
  const auto kernel = runtime.prepare(request);
  if (!kernel) return fail(Error(kernel.error()));
  auto buffer = runtime.allocate(DeviceId::host(), Bytes{values.size() * sizeof(int)});
  if (!buffer) return fail(std::move(buffer.error()));
  done = buffer->upload(std::as_bytes(std::span(values)));
  const Params params{static_cast<int*>(buffer->data()), static_cast<int>(values.size()), 3};
  const auto blocks = static_cast<std::uint32_t>((values.size() + 63) / 64);
  if (done) done = kernel->launch(Grid{blocks, 1, 1}, params, StreamHandle{});
  if (done) done = buffer->download(std::as_writable_bytes(std::span(values)));
  if (!done) return fail(std::move(done.error()));
  return values;
}

}  // namespace

int main() {
  const auto runtime = Runtime::create();
  if (!runtime) {
    std::fprintf(stderr, "%s\n", runtime.error().text().c_str());
    return 1;
  }
  // An op of the library's own is there too, and so are the templates that it stands on: a wrong option is found before any compile.
  SparseMlaPrefillOptions options;
  options.device = DeviceId::host();
  options.heads = 129;
  const auto op = SparseMlaPrefill::create(*runtime, options);
  if (op || op.error().code != ErrorCode::invalid_argument) {
    std::fprintf(stderr, "129 heads were not refused as an invalid argument\n");
    return 1;
  }

  std::vector<int> input(1000);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<int>(i) - 500;
  const auto output = affine(*runtime, input);
  if (!output) {
    std::fprintf(stderr, "%s\n", output.error().text().c_str());
    return 1;
  }
  for (std::size_t i = 0; i < input.size(); ++i) {
    if ((*output)[i] != 7 * input[i] + 3) {
      std::fprintf(stderr, "7 * %d + 3 came out as %d\n", input[i], (*output)[i]);
      return 1;
    }
  }
  std::printf("%zu values right, %zu templates known\n", output->size(), runtime->template_names().size());
  return 0;
}
