// Paged KV kernels and paged MLA decode for C.
#include <fmt/format.h>

#include <initializer_list>
#include <tuple>

#include "c_api/handles.hpp"
#include "c_api/paged_options.hpp"

using namespace kernwright;
using namespace kernwright::c_api;

namespace {

using TensorArguments = std::initializer_list<std::tuple<TensorView*, const kw_tensor*, const char*>>;

Result<> read_tensors(TensorArguments tensors) {
  for (const auto& [to, from, name] : tensors) {
    const auto view = read_tensor(from, name);
    if (!view) return tl::unexpected<Error>(view.error());
    *to = *view;
  }
  return {};
}

Result<PagedKvBatch> read_batch(const kw_paged_kv_batch* from) {
  const auto given = read_struct(from, "batch");
  if (!given) return tl::unexpected<Error>(given.error());
  PagedKvBatch batch;
  auto read = read_tensors({{&batch.req_to_token, given->req_to_token, "batch.req_to_token"},
                            {&batch.requests, given->requests, "batch.requests"},
                            {&batch.lengths, given->lengths, "batch.lengths"},
                            {&batch.starts, given->starts, "batch.starts"},
                            {&batch.v2p, given->v2p, "batch.v2p"}});
  if (!read) return fail(std::move(read.error()));
  return batch;
}

Result<PagedKvOptions> read_options(const kw_paged_kv_options* from) {
  const auto given = read_struct(from, "options");
  if (!given) return tl::unexpected<Error>(given.error());
  const auto device = read_device(given->device);
  if (!device) return tl::unexpected<Error>(device.error());
  PagedKvOptions options;
  options.device = *device;
  options.page_size = or_default(given->page_size, options.page_size);
  options.multiplier = or_default(given->multiplier, options.multiplier);
  options.has_table = given->has_table != 0;
  options.pages = given->pages;
  if (auto r = read_rows(*given, options); !r) return fail(std::move(r.error()));
  return options;
}

Result<PagedMlaDecodeOptions> read_options(const kw_paged_mla_decode_options* from) {
  const auto given = read_struct(from, "options");
  if (!given) return tl::unexpected<Error>(given.error());
  const auto device = read_device(given->device);
  if (!device) return tl::unexpected<Error>(device.error());
  const auto dtype = read_dtype(given->dtype, DType::bf16, "options.dtype");
  if (!dtype) return tl::unexpected<Error>(dtype.error());
  auto tile = read_tile(given->tile);
  if (!tile) return fail(std::move(tile.error()));
  PagedMlaDecodeOptions options;
  options.device = *device;
  options.heads = given->heads;
  options.query_tokens = or_default(given->query_tokens, options.query_tokens);
  options.page_size = or_default(given->page_size, options.page_size);
  options.d_qk = or_default(given->d_qk, options.d_qk);
  options.d_v = or_default(given->d_v, options.d_v);
  options.dtype = *dtype;
  options.pool = given->unified_pool != 0 ? PoolKind::unified_mla : PoolKind::static_pool;
  if (given->shares != 0) options.shares = given->shares;
  options.tile = std::move(*tile);
  return options;
}

}  // namespace

extern "C" {

kw_status kw_paged_kv_create(const kw_runtime* runtime, const kw_paged_kv_options* options, kw_paged_kv** op) {
  return guarded([&] { return create_op<PagedKv>(op, "op", runtime, options, [](const auto* given) { return read_options(given); }); });
}

void kw_paged_kv_destroy(kw_paged_kv* op) {
  delete op;
}

kw_status kw_paged_kv_reports(const kw_paged_kv* op, kw_reports** reports) {
  return guarded([&]() -> Result<> {
    if (auto r = clear(reports, "reports"); !r) return r;
    if (auto r = need(op, "op"); !r) return r;
    return hand_out_reports(reports, op->op.reports());
  });
}

kw_status kw_paged_kv_block_table(const kw_paged_kv* op, const kw_paged_kv_batch* batch, const kw_tensor* out, kw_stream_handle stream) {
  return guarded([&]() -> Result<> {
    if (auto r = need(op, "op"); !r) return r;
    const auto read = read_batch(batch);
    if (!read) return tl::unexpected<Error>(read.error());
    TensorView to;
    if (auto r = read_tensors({{&to, out, "out"}}); !r) return r;
    return op->op.block_table(*read, to, StreamHandle{stream});
  });
}

kw_status kw_paged_kv_token_indices(const kw_paged_kv* op, const kw_paged_kv_batch* batch, const kw_tensor* offsets, const kw_tensor* out,
                                    kw_stream_handle stream) {
  return guarded([&]() -> Result<> {
    if (auto r = need(op, "op"); !r) return r;
    const auto read = read_batch(batch);
    if (!read) return tl::unexpected<Error>(read.error());
    TensorView begins, to;
    if (auto r = read_tensors({{&begins, offsets, "offsets"}, {&to, out, "out"}}); !r) return r;
    return op->op.token_indices(*read, begins, to, StreamHandle{stream});
  });
}

kw_status kw_paged_kv_translate(const kw_paged_kv* op, const kw_tensor* in, const kw_tensor* out, const kw_tensor* count,
                                const kw_tensor* v2p, kw_stream_handle stream) {
  return guarded([&]() -> Result<> {
    if (auto r = need(op, "op"); !r) return r;
    TensorView from, to, used, table;
    if (auto r = read_tensors({{&from, in, "in"}, {&to, out, "out"}, {&used, count, "count"}, {&table, v2p, "v2p"}}); !r) return r;
    return op->op.translate(from, to, used, table, StreamHandle{stream});
  });
}

kw_status kw_paged_kv_write_locations(const kw_paged_kv* op, const kw_tensor* in, const kw_tensor* out, const kw_tensor* v2p,
                                      kw_stream_handle stream) {
  return guarded([&]() -> Result<> {
    if (auto r = need(op, "op"); !r) return r;
    TensorView from, to, table;
    if (auto r = read_tensors({{&from, in, "in"}, {&to, out, "out"}, {&table, v2p, "v2p"}}); !r) return r;
    return op->op.write_locations(from, to, table, StreamHandle{stream});
  });
}

kw_status kw_paged_kv_write_rows(const kw_paged_kv* op, const kw_tensor* latent, const kw_tensor* rope, const kw_tensor* locations,
                                 int32_t dense, const kw_tensor* view, const kw_tensor* v2p, kw_stream_handle stream) {
  return guarded([&]() -> Result<> {
    if (auto r = need(op, "op"); !r) return r;
    TensorView first, second, places, rows, table;
    auto read = read_tensors({{&first, latent, "latent"},
                              {&second, rope, "rope"},
                              {&places, locations, "locations"},
                              {&rows, view, "view"},
                              {&table, v2p, "v2p"}});
    if (!read) return read;
    return op->op.write_rows(first, second, places, dense != 0, rows, table, StreamHandle{stream});
  });
}

kw_status kw_paged_kv_move_pages(const kw_paged_kv* op, void* pool, uint64_t page_bytes, const kw_tensor* moves, kw_stream_handle stream) {
  return guarded([&]() -> Result<> {
    if (auto r = need(op, "op"); !r) return r;
    TensorView pairs;
    if (auto r = read_tensors({{&pairs, moves, "moves"}}); !r) return r;
    return op->op.move_pages(pool, Bytes{page_bytes}, pairs, StreamHandle{stream});
  });
}

kw_status kw_paged_kv_zero_pages(const kw_paged_kv* op, void* pool, uint64_t page_bytes, const kw_tensor* pages, kw_stream_handle stream) {
  return guarded([&]() -> Result<> {
    if (auto r = need(op, "op"); !r) return r;
    TensorView list;
    if (auto r = read_tensors({{&list, pages, "pages"}}); !r) return r;
    return op->op.zero_pages(pool, Bytes{page_bytes}, list, StreamHandle{stream});
  });
}

kw_status kw_paged_mla_decode_create(const kw_runtime* runtime, const kw_paged_mla_decode_options* options, kw_paged_mla_decode** op) {
  return guarded(
      [&] { return create_op<PagedMlaDecode>(op, "op", runtime, options, [](const auto* given) { return read_options(given); }); });
}

kw_status kw_paged_mla_decode_create_async(const kw_runtime* runtime, const kw_paged_mla_decode_options* options, kw_future** future) {
  return guarded(
      [&] { return create_op_async<PagedMlaDecode>(future, runtime, options, [](const auto* given) { return read_options(given); }); });
}

void kw_paged_mla_decode_destroy(kw_paged_mla_decode* op) {
  delete op;
}

kw_status kw_paged_mla_decode_workspace_bytes(const kw_paged_mla_decode* op, uint64_t* bytes) {
  return guarded([&]() -> Result<> {
    if (auto r = need(op, "op"); !r) return r;
    if (auto r = need(bytes, "bytes"); !r) return r;
    *bytes = op->op.workspace_bytes().count;
    return {};
  });
}

kw_status kw_paged_mla_decode_run(const kw_paged_mla_decode* op, const kw_paged_mla_decode_arguments* arguments, kw_stream_handle stream) {
  return guarded([&]() -> Result<> {
    if (auto r = need(op, "op"); !r) return r;
    const auto given = read_struct(arguments, "arguments");
    if (!given) return tl::unexpected<Error>(given.error());
    PagedMlaDecodeArguments call;
    auto read = read_tensors({{&call.q, given->q, "arguments.q"},
                              {&call.kv, given->kv, "arguments.kv"},
                              {&call.block_table, given->block_table, "arguments.block_table"},
                              {&call.seq_lens, given->seq_lens, "arguments.seq_lens"},
                              {&call.out, given->out, "arguments.out"},
                              {&call.lse, given->lse, "arguments.lse"}});
    if (!read) return read;
    call.sm_scale = given->sm_scale;
    call.workspace = given->workspace;
    call.workspace_size = Bytes{given->workspace_bytes};
    return op->op.run(call, StreamHandle{stream});
  });
}

kw_status kw_paged_mla_decode_reports(const kw_paged_mla_decode* op, kw_reports** reports) {
  return guarded([&]() -> Result<> {
    if (auto r = clear(reports, "reports"); !r) return r;
    if (auto r = need(op, "op"); !r) return r;
    return hand_out_reports(reports, op->op.reports());
  });
}

}  // extern "C"
