#include "sparse_mla_tensors.hpp"

#include <algorithm>
#include <span>

#include "device_upload.hpp"

namespace kernwright::tool {
namespace {

/// Three dimensions of bf16 in memory with strides.
struct Strided {
  std::int64_t outer = 0, middle = 0, inner = 0, outer_stride = 0, middle_stride = 0;
  /// Elements from the first to behind the last.
  [[nodiscard]] std::int64_t extent() const {
    return outer == 0 || middle == 0 ? 0 : (outer - 1) * outer_stride + (middle - 1) * middle_stride + inner;
  }
  [[nodiscard]] bool dense() const { return middle_stride == inner && outer_stride == middle * inner; }
  /// Calls visit(place among dense rows, place in memory), in elements, for every row.
  template <class Visit>
  void each_row(Visit visit) const {
    for (std::int64_t i = 0; i < outer; ++i) {
      for (std::int64_t k = 0; k < middle; ++k) visit((i * middle + k) * inner, i * outer_stride + k * middle_stride);
    }
  }
};

Strided q_layout(const SparseMlaInput& input) {
  return {input.tokens, input.heads, input.d_qk, input.strides.q_token, input.strides.q_head};
}
Strided kv_layout(const SparseMlaInput& input) {
  return {input.kv_rows, 1, input.d_qk, input.strides.kv_row, input.d_qk};
}
Strided out_layout(const SparseMlaInput& input) {
  return {input.tokens, input.heads, kValueColumns, input.strides.out_token, input.strides.out_head};
}

/// What lies between the rows is NaN: nobody may read it.
Result<DeviceBuffer> rows_to_device(const Runtime& runtime, DeviceId device, const std::vector<support::Bf16>& values,
                                    const Strided& layout) {
  if (layout.dense()) return to_device(runtime, device, values);
  std::vector<support::Bf16> spread(static_cast<std::size_t>(layout.extent()), support::Bf16{0xffff});
  layout.each_row([&](std::int64_t from, std::int64_t to) { std::copy_n(values.begin() + from, layout.inner, spread.begin() + to); });
  return to_device(runtime, device, spread);
}

}  // namespace

Result<DeviceTensors> place(const Runtime& runtime, DeviceId device, const SparseMlaInput& input, Bytes workspace) {
  DeviceTensors tensors;
  Result<> done;
  const auto keep = [&done](DeviceBuffer& to, auto&& make) {
    if (!done) return;
    Result<DeviceBuffer> made = make();
    if (made) {
      to = std::move(*made);
    } else {
      done = fail(std::move(made.error()));
    }
  };
  const std::int64_t rows = input.tokens * input.heads;
  keep(tensors.q, [&] { return rows_to_device(runtime, device, input.q, q_layout(input)); });
  keep(tensors.kv, [&] { return rows_to_device(runtime, device, input.kv, kv_layout(input)); });
  keep(tensors.indices, [&] { return to_device(runtime, device, input.indices); });
  if (!input.topk_length.empty()) keep(tensors.topk_length, [&] { return to_device(runtime, device, input.topk_length); });
  if (!input.attn_sink.empty()) keep(tensors.attn_sink, [&] { return to_device(runtime, device, input.attn_sink); });
  keep(tensors.out, [&] { return output_buffer(runtime, device, Bytes{static_cast<std::uint64_t>(2 * out_layout(input).extent())}); });
  keep(tensors.max_logits, [&] { return output_buffer(runtime, device, Bytes{static_cast<std::uint64_t>(4 * rows)}); });
  keep(tensors.lse, [&] { return output_buffer(runtime, device, Bytes{static_cast<std::uint64_t>(4 * rows)}); });
  if (done) done = grow_workspace(runtime, device, tensors, workspace);
  if (!done) return fail(std::move(done.error()).within("placing the problem on the device"));

  SparseMlaPrefillArguments& a = tensors.arguments;
  a.q = TensorView::contiguous(tensors.q.data(), DType::bf16, {input.tokens, input.heads, input.d_qk});
  a.q.stride = {input.strides.q_token, input.strides.q_head, 1};
  a.kv = TensorView::contiguous(tensors.kv.data(), DType::bf16, {input.kv_rows, input.d_qk});
  a.kv.stride = {input.strides.kv_row, 1};
  a.indices = TensorView::contiguous(tensors.indices.data(), DType::i32, {input.tokens, input.topk});
  if (!input.topk_length.empty()) a.topk_length = TensorView::contiguous(tensors.topk_length.data(), DType::i32, {input.tokens});
  if (!input.attn_sink.empty()) a.attn_sink = TensorView::contiguous(tensors.attn_sink.data(), DType::f32, {input.heads});
  a.sm_scale = input.sm_scale;
  a.out = TensorView::contiguous(tensors.out.data(), DType::bf16, {input.tokens, input.heads, kValueColumns});
  a.out.stride = {input.strides.out_token, input.strides.out_head, 1};
  a.max_logits = TensorView::contiguous(tensors.max_logits.data(), DType::f32, {input.tokens, input.heads});
  a.lse = TensorView::contiguous(tensors.lse.data(), DType::f32, {input.tokens, input.heads});
  return tensors;
}

Result<> clear_outputs(DeviceTensors& tensors) {
  for (DeviceBuffer* output : {&tensors.out, &tensors.max_logits, &tensors.lse}) {
    if (Result<> filled = output->fill(std::byte{0xff}); !filled) return filled;
  }
  return {};
}

Result<> grow_workspace(const Runtime& runtime, DeviceId device, DeviceTensors& tensors, Bytes workspace) {
  if (workspace.count > tensors.workspace.size().count) {
    Result<DeviceBuffer> larger = runtime.allocate(device, workspace);
    if (!larger) return fail(std::move(larger.error()));
    tensors.workspace = std::move(*larger);
  }
  tensors.arguments.workspace = workspace.count == 0 ? nullptr : tensors.workspace.data();
  tensors.arguments.workspace_size = workspace;
  return {};
}

Result<HostOutput> fetch(const DeviceTensors& tensors, const SparseMlaInput& input) {
  const auto rows = static_cast<std::size_t>(input.tokens * input.heads);
  HostOutput output;
  const Strided layout = out_layout(input);
  output.out.resize(static_cast<std::size_t>(layout.extent()));
  output.max_logits.resize(rows);
  output.lse.resize(rows);
  Result<> done = tensors.out.download(std::as_writable_bytes(std::span(output.out)));
  if (done) done = tensors.max_logits.download(std::as_writable_bytes(std::span(output.max_logits)));
  if (done) done = tensors.lse.download(std::as_writable_bytes(std::span(output.lse)));
  if (!done) return fail(std::move(done.error()).within("fetching the output"));
  if (!layout.dense()) {
    std::vector<support::Bf16> dense(rows * kValueColumns);
    layout.each_row([&](std::int64_t to, std::int64_t from) { std::copy_n(output.out.begin() + from, layout.inner, dense.begin() + to); });
    output.out = std::move(dense);
  }
  return output;
}

support::SparseMlaReference reference_of(const SparseMlaInput& input, std::span<const std::int64_t> tokens, int union_used) {
  const auto repeated = union_used > 0 ? support::RepeatedPositions::once : support::RepeatedPositions::each;
  return support::sparse_mla_reference(input.problem(), tokens, repeated);
}

CheckedOutput check_output(const SparseMlaInput& input, const HostOutput& output, int union_used, std::uint64_t seed) {
  const std::vector<std::int64_t> tokens = support::checked_tokens(input.tokens, union_used, seed);
  const support::SparseMlaReference reference = reference_of(input, tokens, union_used);
  return {support::check_sparse_mla(reference, {output.out, output.lse, output.max_logits}), static_cast<std::int64_t>(tokens.size())};
}

}  // namespace kernwright::tool
