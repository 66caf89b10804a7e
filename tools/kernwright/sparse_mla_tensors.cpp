#include "sparse_mla_tensors.hpp"

#include <span>

#include "device_upload.hpp"

namespace kernwright::tool {
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
  keep(tensors.q, [&] { return to_device(runtime, device, input.q); });
  keep(tensors.kv, [&] { return to_device(runtime, device, input.kv); });
  keep(tensors.indices, [&] { return to_device(runtime, device, input.indices); });
  if (!input.topk_length.empty()) keep(tensors.topk_length, [&] { return to_device(runtime, device, input.topk_length); });
  if (!input.attn_sink.empty()) keep(tensors.attn_sink, [&] { return to_device(runtime, device, input.attn_sink); });
  keep(tensors.out, [&] { return output_buffer(runtime, device, Bytes{static_cast<std::uint64_t>(2 * rows * kValueColumns)}); });
  keep(tensors.max_logits, [&] { return output_buffer(runtime, device, Bytes{static_cast<std::uint64_t>(4 * rows)}); });
  keep(tensors.lse, [&] { return output_buffer(runtime, device, Bytes{static_cast<std::uint64_t>(4 * rows)}); });
  if (done) done = grow_workspace(runtime, device, tensors, workspace);
  if (!done) return fail(std::move(done.error()).within("placing the problem on the device"));

  SparseMlaPrefillArguments& a = tensors.arguments;
  a.q = TensorView::contiguous(tensors.q.data(), DType::bf16, {input.tokens, input.heads, input.d_qk});
  a.kv = TensorView::contiguous(tensors.kv.data(), DType::bf16, {input.kv_rows, input.d_qk});
  a.indices = TensorView::contiguous(tensors.indices.data(), DType::i32, {input.tokens, input.topk});
  if (!input.topk_length.empty()) a.topk_length = TensorView::contiguous(tensors.topk_length.data(), DType::i32, {input.tokens});
  if (!input.attn_sink.empty()) a.attn_sink = TensorView::contiguous(tensors.attn_sink.data(), DType::f32, {input.heads});
  a.sm_scale = input.sm_scale;
  a.out = TensorView::contiguous(tensors.out.data(), DType::bf16, {input.tokens, input.heads, kValueColumns});
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
  output.out.resize(rows * kValueColumns);
  output.max_logits.resize(rows);
  output.lse.resize(rows);
  Result<> done = tensors.out.download(std::as_writable_bytes(std::span(output.out)));
  if (done) done = tensors.max_logits.download(std::as_writable_bytes(std::span(output.max_logits)));
  if (done) done = tensors.lse.download(std::as_writable_bytes(std::span(output.lse)));
  if (!done) return fail(std::move(done.error()).within("fetching the output"));
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
