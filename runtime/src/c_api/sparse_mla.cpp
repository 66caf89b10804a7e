// Sparse MLA prefill for C.
#include <fmt/format.h>

#include <initializer_list>
#include <tuple>

#include "c_api/handles.hpp"

using namespace kernwright;
using namespace kernwright::c_api;

namespace {

Result<SparseMlaPrefillOptions> read_options(const kw_sparse_mla_prefill_options* from) {
  const auto given = read_struct(from, "options");
  if (!given) return tl::unexpected<Error>(given.error());
  const auto device = read_device(given->device);
  if (!device) return tl::unexpected<Error>(device.error());
  const auto dtype = read_dtype(given->dtype, DType::bf16, "options.dtype");
  if (!dtype) return tl::unexpected<Error>(dtype.error());
  auto tile = read_tile(given->tile);
  if (!tile) return fail(std::move(tile.error()));
  SparseMlaPrefillOptions options;
  options.device = *device;
  options.heads = given->heads;
  options.max_topk = or_default(given->max_topk, options.max_topk);
  options.d_qk = or_default(given->d_qk, options.d_qk);
  options.d_v = or_default(given->d_v, options.d_v);
  options.dtype = *dtype;
  if (given->group_size != KW_UNION_AUTO) options.group_size = given->group_size == KW_UNION_OFF ? 0 : given->group_size;
  options.deterministic = given->deterministic != 0;
  options.index_kpool = or_default(given->index_kpool, options.index_kpool);
  if (given->workspace_limit != 0) options.workspace_limit = Bytes{given->workspace_limit};
  options.tile = std::move(*tile);
  return options;
}

}  // namespace

extern "C" {

kw_status kw_sparse_mla_prefill_create(const kw_runtime* runtime, const kw_sparse_mla_prefill_options* options,
                                       kw_sparse_mla_prefill** op) {
  return guarded(
      [&] { return create_op<SparseMlaPrefill>(op, "op", runtime, options, [](const auto* given) { return read_options(given); }); });
}

kw_status kw_sparse_mla_prefill_create_async(const kw_runtime* runtime, const kw_sparse_mla_prefill_options* options, kw_future** future) {
  return guarded(
      [&] { return create_op_async<SparseMlaPrefill>(future, runtime, options, [](const auto* given) { return read_options(given); }); });
}

void kw_sparse_mla_prefill_destroy(kw_sparse_mla_prefill* op) {
  delete op;
}

kw_status kw_sparse_mla_prefill_workspace_bytes(const kw_sparse_mla_prefill* op, int64_t tokens, int64_t kv_rows, uint64_t* bytes) {
  return guarded([&]() -> Result<> {
    if (auto r = need(op, "op"); !r) return r;
    if (auto r = need(bytes, "bytes"); !r) return r;
    *bytes = op->op.workspace_bytes(tokens, kv_rows).count;
    return {};
  });
}

kw_status kw_sparse_mla_prefill_run(const kw_sparse_mla_prefill* op, const kw_sparse_mla_prefill_arguments* arguments,
                                    kw_stream_handle stream) {
  return guarded([&]() -> Result<> {
    if (auto r = need(op, "op"); !r) return r;
    const auto given = read_struct(arguments, "arguments");
    if (!given) return tl::unexpected<Error>(given.error());
    SparseMlaPrefillArguments call;
    const std::initializer_list<std::tuple<TensorView*, const kw_tensor*, const char*>> tensors{
        {&call.q, given->q, "arguments.q"},
        {&call.kv, given->kv, "arguments.kv"},
        {&call.indices, given->indices, "arguments.indices"},
        {&call.topk_length, given->topk_length, "arguments.topk_length"},
        {&call.attn_sink, given->attn_sink, "arguments.attn_sink"},
        {&call.out, given->out, "arguments.out"},
        {&call.max_logits, given->max_logits, "arguments.max_logits"},
        {&call.lse, given->lse, "arguments.lse"}};
    for (const auto& [to, from, name] : tensors) {
      if (from == nullptr) continue;
      const auto view = read_tensor(from, name);
      if (!view) return tl::unexpected<Error>(view.error());
      *to = *view;
    }
    call.sm_scale = given->sm_scale;
    call.workspace = given->workspace;
    call.workspace_size = Bytes{given->workspace_bytes};
    return op->op.run(call, StreamHandle{stream});
  });
}

kw_status kw_sparse_mla_prefill_union(const kw_sparse_mla_prefill* op, int32_t* group_size, const char** reason) {
  return guarded([&]() -> Result<> {
    if (auto r = need(op, "op"); !r) return r;
    if (auto r = need(group_size, "group_size"); !r) return r;
    const int used = op->op.union_used();
    *group_size = used == 0 ? static_cast<int>(KW_UNION_OFF) : used;
    if (reason != nullptr) *reason = op->op.union_reason().c_str();
    return {};
  });
}

kw_status kw_sparse_mla_prefill_reports(const kw_sparse_mla_prefill* op, kw_reports** reports) {
  return guarded([&]() -> Result<> {
    if (auto r = clear(reports, "reports"); !r) return r;
    if (auto r = need(op, "op"); !r) return r;
    return hand_out_reports(reports, op->op.reports());
  });
}

}  // extern "C"
