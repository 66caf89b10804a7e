// The unified pool for C.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "c_api/handles.hpp"
#include "c_api/paged_options.hpp"

using namespace kernwright;
using namespace kernwright::c_api;

namespace {

Result<PoolSide> read_side(kw_pool_side side) {
  if (side == KW_POOL_KV) return PoolSide::kv;
  if (side == KW_POOL_STATE) return PoolSide::state;
  return fail(ErrorCode::invalid_argument, fmt::format("side is {}; legal is KW_POOL_KV or KW_POOL_STATE", side));
}

Result<UnifiedPoolOptions> read_options(const kw_unified_pool_options* from) {
  const auto given = read_struct(from, "options");
  if (!given) return tl::unexpected<Error>(given.error());
  const auto device = read_device(given->device);
  if (!device) return tl::unexpected<Error>(device.error());
  UnifiedPoolOptions options;
  options.device = *device;
  options.size = Bytes{given->pool_bytes};
  options.page_size = or_default(given->page_size, options.page_size);
  options.layers = or_default(given->layers, options.layers);
  options.kv_virtual_pages = given->kv_virtual_pages;
  options.state_page_bytes = Bytes{given->state_page_bytes};
  options.state_virtual_pages = given->state_virtual_pages;
  options.compaction = given->deferred_compaction != 0 ? Compaction::deferred : Compaction::eager;
  options.zero_pages = given->keep_old_bytes == 0;
  if (auto r = read_rows(*given, options); !r) return fail(std::move(r.error()));
  return options;
}

}  // namespace

extern "C" {

kw_status kw_unified_pool_create(const kw_runtime* runtime, const kw_unified_pool_options* options, kw_unified_pool** pool) {
  return guarded(
      [&] { return create_op<UnifiedPool>(pool, "pool", runtime, options, [](const auto* given) { return read_options(given); }); });
}

void kw_unified_pool_destroy(kw_unified_pool* pool) {
  delete pool;
}

kw_status kw_unified_pool_allocate(kw_unified_pool* pool, kw_pool_side side, int64_t count, int64_t* pages, kw_stream_handle stream) {
  return guarded([&]() -> Result<> {
    if (auto r = need(pool, "pool"); !r) return r;
    const auto which = read_side(side);
    if (!which) return tl::unexpected<Error>(which.error());
    if (count > 0) {
      if (auto r = need(pages, "pages"); !r) return r;
    }
    const auto allocated = pool->pool.allocate(*which, count, StreamHandle{stream});
    if (!allocated) return tl::unexpected<Error>(allocated.error());
    std::copy(allocated->begin(), allocated->end(), pages);
    return {};
  });
}

kw_status kw_unified_pool_free(kw_unified_pool* pool, kw_pool_side side, const int64_t* pages, int64_t count, kw_stream_handle stream) {
  return guarded([&]() -> Result<> {
    if (auto r = need(pool, "pool"); !r) return r;
    const auto which = read_side(side);
    if (!which) return tl::unexpected<Error>(which.error());
    if (count < 0) return fail(ErrorCode::invalid_argument, fmt::format("count is {}; legal is 0 and more", count));
    if (count > 0) {
      if (auto r = need(pages, "pages"); !r) return r;
    }
    return pool->pool.free(*which, std::span(pages, static_cast<std::size_t>(count)), StreamHandle{stream});
  });
}

kw_status kw_unified_pool_compact(kw_unified_pool* pool, kw_pool_side side, int64_t* moved, kw_stream_handle stream) {
  return guarded([&]() -> Result<> {
    if (auto r = need(pool, "pool"); !r) return r;
    const auto which = read_side(side);
    if (!which) return tl::unexpected<Error>(which.error());
    const auto count = pool->pool.compact(*which, StreamHandle{stream});
    if (!count) return tl::unexpected<Error>(count.error());
    if (moved != nullptr) *moved = *count;
    return {};
  });
}

kw_status kw_unified_pool_wait(kw_unified_pool* pool, kw_stream_handle stream) {
  return guarded([&]() -> Result<> {
    if (auto r = need(pool, "pool"); !r) return r;
    return pool->pool.wait(StreamHandle{stream});
  });
}

kw_status kw_unified_pool_dense_view(const kw_unified_pool* pool, int32_t layer, kw_tensor* view) {
  return guarded([&]() -> Result<> {
    if (auto r = need(pool, "pool"); !r) return r;
    const auto rows = pool->pool.dense_view(layer);
    if (!rows) return tl::unexpected<Error>(rows.error());
    return write_tensor(view, *rows, "view");
  });
}

kw_status kw_unified_pool_v2p(const kw_unified_pool* pool, kw_pool_side side, kw_tensor* table) {
  return guarded([&]() -> Result<> {
    if (auto r = need(pool, "pool"); !r) return r;
    const auto which = read_side(side);
    if (!which) return tl::unexpected<Error>(which.error());
    return write_tensor(table, pool->pool.v2p(*which), "table");
  });
}

kw_status kw_unified_pool_page_address(const kw_unified_pool* pool, kw_pool_side side, int64_t page, void** address) {
  return guarded([&]() -> Result<> {
    if (auto r = need(pool, "pool"); !r) return r;
    if (auto r = need(address, "address"); !r) return r;
    const auto which = read_side(side);
    if (!which) return tl::unexpected<Error>(which.error());
    *address = pool->pool.page_address(*which, page);
    return {};
  });
}

kw_status kw_unified_pool_kernels(const kw_unified_pool* pool, kw_paged_kv** op) {
  return guarded([&]() -> Result<> {
    if (auto r = clear(op, "op"); !r) return r;
    if (auto r = need(pool, "pool"); !r) return r;
    *op = new kw_paged_kv{pool->pool.kernels()};
    return {};
  });
}

kw_status kw_unified_pool_get_statistics(const kw_unified_pool* pool, kw_pool_side side, kw_unified_pool_statistics* statistics) {
  return guarded([&]() -> Result<> {
    if (auto r = need(pool, "pool"); !r) return r;
    const auto which = read_side(side);
    if (!which) return tl::unexpected<Error>(which.error());
    const UnifiedPool::Statistics from = pool->pool.statistics(*which);
    kw_unified_pool_statistics values;
    kw_init(&values);
    values.used = from.used;
    values.holes = from.holes;
    values.watermark = from.watermark;
    values.highest = from.highest;
    values.moved_pages = from.moved_pages;
    values.compactions = from.compactions;
    values.free_virtual = from.free_virtual;
    values.free_pages = from.free_pages;
    return write_struct(statistics, values, "statistics");
  });
}

}  // extern "C"
