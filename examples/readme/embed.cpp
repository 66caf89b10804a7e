#include "kernwright/sparse_mla_prefill.hpp"

using namespace kernwright;

// Once, when the engine starts: checks the options, compiles or reads the store, loads, steps the tile down where the device asks for it.
Result<SparseMlaPrefill> make_prefill(const Runtime& runtime, int heads) {
  SparseMlaPrefillOptions options;
  options.device = DeviceId::cuda(0);
  options.heads = heads;
  return SparseMlaPrefill::create(runtime, options);
}

// Each request, on tensors and a stream that the engine owns: no lock, no allocation, legal while the stream captures.
Result<> prefill(const SparseMlaPrefill& op, const TensorView& q, const TensorView& kv, const TensorView& indices, const TensorView& out,
                 float sm_scale, void* workspace, Bytes workspace_size, StreamHandle stream) {
  SparseMlaPrefillArguments arguments;
  arguments.q = q;              // [T, H, 576] bf16
  arguments.kv = kv;            // [S, 576] bf16
  arguments.indices = indices;  // [T, K] int32
  arguments.out = out;          // [T, H, 512] bf16
  arguments.sm_scale = sm_scale;
  arguments.workspace = workspace;
  arguments.workspace_size = workspace_size;  // at least op.workspace_bytes(T, S)
  return op.run(arguments, stream);
}
