// Sparse MLA prefill in a program of one's own, on a problem whose answer is known: with q = 0 every selected row weighs the same, so
// out is the mean of the selected rows and lse is ln K.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernwright/sparse_mla_prefill.hpp"

namespace {

using namespace kernwright;

template <class T>
T or_exit(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().text().c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

std::uint16_t bf16(float value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}  // exact values only
float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

template <class T>
DeviceBuffer upload(const Runtime& runtime, DeviceId device, const std::vector<T>& values) {
  DeviceBuffer buffer = or_exit(runtime.allocate(device, Bytes{values.size() * sizeof(T)}));
  or_exit(buffer.upload(std::as_bytes(std::span(values))));
  return buffer;
}

template <class T>
std::vector<T> download(const DeviceBuffer& buffer) {
  std::vector<T> values(buffer.size().count / sizeof(T));
  or_exit(buffer.download(std::as_writable_bytes(std::span(values))));
  return values;
}

}  // namespace

int main(int argc, char** argv) {
  // The interpreter only runs where it is asked for by name: an engine with a broken driver gets an error instead.
  const DeviceId device = argc > 1 && std::strcmp(argv[1], "--host") == 0 ? DeviceId::host() : DeviceId::cuda(0);
  constexpr std::int64_t kTokens = 50, kHeads = 8, kKvRows = 256, kTopk = 32, kQk = 576, kV = 512;

  RuntimeOptions options;
  options.log = [](LogLevel level, std::string_view line) {
    std::fprintf(stderr, "%s: %.*s\n", to_string(level).data(), static_cast<int>(line.size()), line.data());
  };
  const Runtime runtime = or_exit(Runtime::create(options));

  // Once, when the engine starts: checks the options, compiles or reads the store, loads, steps down where the device asks for it.
  SparseMlaPrefillOptions shape;
  shape.device = device;
  shape.heads = kHeads;
  shape.max_topk = kTopk;
  shape.group_size = 4;
  const SparseMlaPrefill prefill = or_exit(SparseMlaPrefill::create(runtime, shape));

  // The engine's own tensors. kv holds small integers, so that the mean of 32 of them is exact in bf16.
  std::vector<std::uint16_t> kv(kKvRows * kQk);
  for (std::int64_t i = 0; i < std::ssize(kv); ++i) {
    kv[static_cast<std::size_t>(i)] = bf16(static_cast<float>((i / kQk / 3 + (i / kQk) * (i % kQk)) % 8));
  }
  std::vector<std::int32_t> indices(kTokens * kTopk);
  for (std::int64_t i = 0; i < std::ssize(indices); ++i) {
    indices[static_cast<std::size_t>(i)] = static_cast<std::int32_t>((i / kTopk + i % kTopk * 5) % kKvRows);
  }
  const DeviceBuffer q = upload(runtime, device, std::vector<std::uint16_t>(kTokens * kHeads * kQk));
  const DeviceBuffer kv_rows = upload(runtime, device, kv);
  const DeviceBuffer positions = upload(runtime, device, indices);
  const DeviceBuffer out = or_exit(runtime.allocate(device, Bytes{kTokens * kHeads * kV * sizeof(std::uint16_t)}));
  const DeviceBuffer lse = or_exit(runtime.allocate(device, Bytes{kTokens * kHeads * sizeof(float)}));
  const DeviceBuffer workspace = or_exit(runtime.allocate(device, prefill.workspace_bytes(kTokens, kKvRows)));
  const Stream stream = or_exit(runtime.create_stream(device));

  // Each request: no allocation, no lock, legal while the stream captures.
  SparseMlaPrefillArguments arguments;
  arguments.q = TensorView::contiguous(q.data(), DType::bf16, {kTokens, kHeads, kQk});
  arguments.kv = TensorView::contiguous(kv_rows.data(), DType::bf16, {kKvRows, kQk});
  arguments.indices = TensorView::contiguous(positions.data(), DType::i32, {kTokens, kTopk});
  arguments.sm_scale = 1.0F / 24.0F;
  arguments.out = TensorView::contiguous(out.data(), DType::bf16, {kTokens, kHeads, kV});
  arguments.lse = TensorView::contiguous(lse.data(), DType::f32, {kTokens, kHeads});
  arguments.workspace = workspace.data();
  arguments.workspace_size = workspace.size();
  or_exit(prefill.run(arguments, stream.handle()));
  or_exit(stream.synchronize());

  const auto values = download<std::uint16_t>(out);
  const auto logarithms = download<float>(lse);
  std::int64_t wrong = std::ranges::count_if(logarithms, [](float x) { return !(std::abs(x - std::log(float{kTopk})) < 1e-4F); });
  for (std::int64_t i = 0; i < std::ssize(values); ++i) {
    const std::int64_t token = i / (kHeads * kV);
    float sum = 0;
    for (std::int64_t k = 0; k < kTopk; ++k) {
      const std::int64_t row = indices[static_cast<std::size_t>(token * kTopk + k)];
      sum += from_bf16(kv[static_cast<std::size_t>(row * kQk + i % kV)]);
    }
    if (from_bf16(values[static_cast<std::size_t>(i)]) != sum / float{kTopk}) ++wrong;
  }
  for (const PrepareReport& report : prefill.reports()) {
    std::printf("%s on %s: tile %s, %s\n", report.template_name.c_str(), to_string(report.device).c_str(),
                report.tile_fitted.text().c_str(), to_string(report.cache).data());
  }
  std::printf("%lld values differ from the means of the selected rows\n", static_cast<long long>(wrong));
  return wrong == 0 ? 0 : 1;
}
