#include "paged_kv_pool.hpp"

#include <algorithm>

#include "backend/backend.hpp"
#include "prepare/runtime_state.hpp"

namespace kernwright::tool {
namespace {

constexpr int kLatentWidth = 512;
constexpr std::int64_t kIndexLimit = std::int64_t{1} << 31;

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

DType index_dtype(std::int64_t rows) {
  return rows < kIndexLimit ? DType::i32 : DType::i64;
}

}  // namespace

Result<PagedKvPool> PagedKvPool::create(const Runtime& runtime, DeviceId device, const PagedKvInput& input, PoolKind kind) {
  PagedKvPool pool(runtime, device, input);
  std::vector<bool> used(at(input.virtual_pages), false);
  used[0] = true;
  for (std::int64_t lane = 0; lane < input.batch.lanes(); ++lane) {
    for (std::int64_t i = 0; i < input.batch.length(lane); ++i) {
      if (const std::int64_t token = input.batch.token(lane, i); input.has_page(token)) used[at(token / input.page_size)] = true;
    }
  }
  for (std::int64_t page = 0; page < input.virtual_pages; ++page) {
    if (!used[at(page)]) pool.unused_.push_back(page);
  }
  Result<> made = kind == PoolKind::static_pool ? pool.make_static() : pool.make_unified();
  if (!made) return fail(std::move(made.error()));
  return pool;
}

Result<> PagedKvPool::make_static() {
  PagedKvOptions options;
  options.device = device_;
  options.page_size = static_cast<int>(input_->page_size);
  options.pages = input_->virtual_pages;
  options.token_dtype = input_->token_dtype;
  options.index_dtype = index_dtype(input_->virtual_pages * input_->page_size);
  options.latent_width = kLatentWidth;
  options.rope_width = static_cast<int>(input_->d_qk) - kLatentWidth;
  auto kernels = PagedKv::create(runtime_, options);
  if (!kernels) return fail(std::move(kernels.error()));
  static_kernels_.emplace(std::move(*kernels));
  auto rows = runtime_.allocate(device_, Bytes{static_cast<std::uint64_t>(input_->virtual_pages) * page_bytes().count});
  if (!rows) return fail(std::move(rows.error()));
  static_rows_ = std::move(*rows);
  return static_rows_.fill(std::byte{0});
}

Result<> PagedKvPool::make_unified() {
  UnifiedPoolOptions options;
  options.device = device_;
  options.page_size = static_cast<int>(input_->page_size);
  options.layers = static_cast<int>(input_->layers);
  options.latent_width = kLatentWidth;
  options.rope_width = static_cast<int>(input_->d_qk) - kLatentWidth;
  options.kv_virtual_pages = input_->virtual_pages;
  options.size = Bytes{static_cast<std::uint64_t>(input_->virtual_pages * input_->layers * input_->page_size * input_->d_qk * 2)};
  options.compaction = Compaction::deferred;
  options.token_dtype = input_->token_dtype;
  options.index_dtype = index_dtype(input_->virtual_pages * input_->layers * input_->page_size);
  auto pool = UnifiedPool::create(runtime_, options);
  if (!pool) return fail(std::move(pool.error()));
  auto stream = runtime_.create_stream(device_);
  if (!stream) return fail(std::move(stream.error()));
  unified_.emplace(std::move(*pool));
  // The lowest free ids, one after the other: all that there are.
  auto bound = unified_->allocate(PoolSide::kv, input_->virtual_pages - 1, stream->handle());
  return bound ? stream->synchronize() : fail(std::move(bound.error()));
}

PoolHooks PagedKvPool::hooks() const {
  if (unified_) return unified_->hooks();
  return {{}, static_cast<int>(input_->page_size), 1};
}

TensorView PagedKvPool::view(std::int64_t layer) const {
  if (unified_) return *unified_->dense_view(static_cast<int>(layer));
  return TensorView::contiguous(static_rows_.data(), DType::bf16, {input_->virtual_pages * input_->page_size, input_->d_qk});
}

Bytes PagedKvPool::page_bytes() const {
  return Bytes{static_cast<std::uint64_t>(layers() * input_->page_size * input_->d_qk * 2)};
}

Result<support::PagedIds> PagedKvPool::ids() const {
  support::PagedIds ids;
  ids.page_size = input_->page_size;
  ids.multiplier = layers();
  const PoolHooks asked = hooks();
  if (!asked.translates()) return ids;
  ids.v2p.resize(at(asked.v2p.shape[0]));
  const auto backend = runtime_.state().backend(device_.backend);
  auto copied = backend->copy_from_device(device_, std::as_writable_bytes(std::span(ids.v2p)), asked.v2p.data);
  if (!copied) return fail(std::move(copied.error()));
  return ids;
}

Result<std::vector<std::uint16_t>> PagedKvPool::elements() const {
  const std::int64_t rows = view(0).shape[0] + (layers() - 1) * input_->page_size;
  std::vector<std::uint16_t> all(at(rows * input_->d_qk));
  const auto backend = runtime_.state().backend(device_.backend);
  auto copied = backend->copy_from_device(device_, std::as_writable_bytes(std::span(all)), base());
  if (!copied) return fail(std::move(copied.error()));
  return all;
}

}  // namespace kernwright::tool
