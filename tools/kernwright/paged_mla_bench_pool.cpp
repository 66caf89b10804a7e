#include "paged_mla_bench_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "device_upload.hpp"
#include "support/random.hpp"

namespace kernwright::tool {
namespace {

constexpr std::int64_t kLatentWidth = 512;
constexpr std::int64_t kRopeWidth = kKvRowWidth - kLatentWidth;
constexpr double kRotatedL2s = 32;  ///< A batch is read again only after so many times the L2 cache's size.
constexpr std::int64_t kMostSets = 512;
/// Primes: the first that a request fits in.
constexpr std::int64_t kSourceRows[]{251, 4'093, 65'521, 524'287, 16'777'213};

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

void shuffle(std::vector<std::int64_t>& values, std::uint64_t seed) {
  support::SplitMix64 random(seed);
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.below(static_cast<std::uint32_t>(i))]);
}

}  // namespace

Result<KvSource> make_kv_source(const Runtime& runtime, DeviceId device, std::int64_t request_tokens, std::uint64_t seed) {
  KvSource source;
  const auto* const fitting = std::ranges::find_if(kSourceRows, [&](std::int64_t rows) { return rows >= request_tokens; });
  source.count = fitting == std::end(kSourceRows) ? kSourceRows[std::size(kSourceRows) - 1] : *fitting;
  source.rows = support::random_normal_bf16(source.count * kKvRowWidth, seed, 2);
  auto placed = to_device(runtime, device, source.rows);
  if (!placed) return fail(std::move(placed.error()));
  source.device = std::move(*placed);
  return source;
}

PagedKvOptions static_pool_options(DeviceId device, int page_size, std::int64_t pages) {
  PagedKvOptions options;
  options.device = device;
  options.page_size = page_size;
  options.pages = pages;
  options.request_dtype = DType::i32;
  return options;
}

std::int64_t rotated_sets(const DeviceInfo& device, std::int64_t batch, std::int64_t tokens) {
  const double set_bytes = static_cast<double>(batch * tokens * kKvRowBytes);
  const double rotated = device.id.backend == BackendKind::cuda ? kRotatedL2s * static_cast<double>(device.l2.count) : 0;
  return std::clamp(static_cast<std::int64_t>(std::ceil(rotated / set_bytes)), std::int64_t{2}, kMostSets);
}

double BenchPoolShape::bytes() const {
  return static_cast<double>(pages() + other_pages() + 1) * layers * page_size * static_cast<double>(kKvRowBytes);
}

Result<BenchPool> BenchPool::create(const Runtime& runtime, DeviceId device, const BenchPoolShape& shape, const KvSource& source) {
  if (static_cast<double>(shape.pages() + shape.other_pages() + 2) * shape.page_size > std::numeric_limits<std::int32_t>::max()) {
    return fail(ErrorCode::invalid_argument, fmt::format("{} batches of {} requests of {} tokens are more than 32 bits have token ids for",
                                                         shape.sets, shape.batch, shape.tokens));
  }
  BenchPool pool;
  pool.shape_ = shape;
  auto stream = runtime.create_stream(device);
  if (!stream) return fail(std::move(stream.error()));
  pool.stream_ = std::move(*stream);
  Result<> done = pool.make_pool(runtime, device);
  if (done) done = pool.write_rows(runtime, device, source);
  if (done) done = pool.write_block_tables(runtime, device);
  if (!done) return fail(std::move(done.error()).within(fmt::format("filling a pool, {}", to_string(shape.kind))));
  return pool;
}

Result<> BenchPool::make_pool(const Runtime& runtime, DeviceId device) {
  const std::int64_t wanted = shape_.pages(), others = shape_.other_pages();
  if (shape_.kind == PoolKind::static_pool) {
    auto kernels = PagedKv::create(runtime, static_pool_options(device, shape_.page_size, wanted + 1));
    if (!kernels) return fail(std::move(kernels.error()));
    static_kernels_.emplace(std::move(*kernels));
    auto rows = runtime.allocate(device, Bytes{static_cast<std::uint64_t>((wanted + 1) * shape_.page_size * kKvRowBytes)});
    if (!rows) return fail(std::move(rows.error()));
    static_rows_ = std::move(*rows);
    pages_.resize(at(wanted));
    std::iota(pages_.begin(), pages_.end(), 1);  // page 0 is the sink
    return {};
  }
  UnifiedPoolOptions options;
  options.device = device;
  options.page_size = shape_.page_size;
  options.layers = shape_.layers;
  options.kv_virtual_pages = wanted + others + 1;
  options.size =
      Bytes{static_cast<std::uint64_t>(wanted + others + 1) * static_cast<std::uint64_t>(shape_.layers * shape_.page_size * kKvRowBytes)};
  options.compaction = Compaction::deferred;
  options.zero_pages = false;  // the pool is made of zeros
  options.request_dtype = DType::i32;
  options.index_dtype = DType::i64;
  auto pool = UnifiedPool::create(runtime, options);
  if (!pool) return fail(std::move(pool.error()));
  pool_.emplace(std::move(*pool));
  auto pages = pool_->allocate(PoolSide::kv, wanted + others, stream_.handle());
  if (!pages) return fail(std::move(pages.error()));
  pages_ = std::move(*pages);
  shuffle(pages_, support::stream_seed(shape_.seed, 3));
  const std::vector<std::int64_t> freed(pages_.begin() + wanted, pages_.end());
  pages_.resize(at(wanted));
  if (auto done = pool_->free(PoolSide::kv, freed, stream_.handle()); !done) return done;
  auto compacted = pool_->compact(PoolSide::kv, stream_.handle());
  return compacted ? stream_.synchronize() : fail(std::move(compacted.error()));
}

std::int64_t BenchPool::virtual_id(std::int64_t token) const {
  const std::int64_t request = token / shape_.tokens, in_request = token % shape_.tokens;
  const std::int64_t page = pages_[at(request * shape_.request_pages() + in_request / shape_.page_size)];
  return page * shape_.page_size + in_request % shape_.page_size;
}

Result<> BenchPool::write_rows(const Runtime& runtime, DeviceId device, const KvSource& source) {
  const std::int64_t tokens = shape_.sets * shape_.batch * shape_.tokens;
  for (std::int64_t first = 0; first < tokens; first += source.count) {
    const std::int64_t count = std::min(source.count, tokens - first);
    std::vector<std::int64_t> ids(at(count));
    for (std::int64_t i = 0; i < count; ++i) ids[at(i)] = virtual_id(first + i);
    auto locations = to_device(runtime, device, ids);
    if (!locations) return fail(std::move(locations.error()));
    auto* const rows = static_cast<support::Bf16*>(source.device.data());
    TensorView latent = TensorView::contiguous(rows, DType::bf16, {count, kLatentWidth});
    TensorView rope = TensorView::contiguous(rows + kLatentWidth, DType::bf16, {count, kRopeWidth});
    latent.stride[0] = rope.stride[0] = kKvRowWidth;
    Result<> done = kernels().write_rows(latent, rope, TensorView::contiguous(locations->data(), DType::i64, {count}), false, kv(), v2p(),
                                         stream_.handle());
    if (done) done = stream_.synchronize();
    if (!done) return done;
  }
  return {};
}

Result<> BenchPool::write_block_tables(const Runtime& runtime, DeviceId device) {
  const std::int64_t requests = shape_.sets * shape_.batch, width = shape_.request_pages();
  std::vector<std::int32_t> tokens(at(requests * shape_.tokens)), slots(at(requests));
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(virtual_id(static_cast<std::int64_t>(i)));
  std::iota(slots.begin(), slots.end(), 0);
  const std::vector<std::int32_t> lengths(at(requests), static_cast<std::int32_t>(shape_.tokens));
  auto device_tokens = to_device(runtime, device, tokens), device_slots = to_device(runtime, device, slots);
  auto device_lengths = to_device(runtime, device, lengths);
  auto tables = output_buffer(runtime, device, Bytes{static_cast<std::uint64_t>(requests * width) * sizeof(std::int32_t)});
  for (auto* buffer : {&device_tokens, &device_slots, &device_lengths, &tables}) {
    if (!*buffer) return fail(std::move(buffer->error()));
  }
  tables_ = std::move(*tables);
  lengths_ = std::move(*device_lengths);
  PagedKvBatch batch;
  batch.req_to_token = TensorView::contiguous(device_tokens->data(), DType::i32, {requests, shape_.tokens});
  batch.requests = TensorView::contiguous(device_slots->data(), DType::i32, {requests});
  batch.lengths = TensorView::contiguous(lengths_.data(), DType::i32, {requests});
  batch.v2p = v2p();
  const TensorView out = TensorView::contiguous(tables_.data(), DType::i32, {requests, width});
  Result<> done = kernels().block_table(batch, out, stream_.handle());
  return done ? stream_.synchronize() : done;
}

TensorView BenchPool::kv() const {
  if (pool_) return *pool_->dense_view(shape_.layers - 1);
  return TensorView::contiguous(static_rows_.data(), DType::bf16, {(shape_.pages() + 1) * shape_.page_size, kKvRowWidth});
}

TensorView BenchPool::block_table(std::int64_t set) const {
  auto* const cells = static_cast<std::int32_t*>(tables_.data()) + set * shape_.batch * shape_.request_pages();
  return TensorView::contiguous(cells, DType::i32, {shape_.batch, shape_.request_pages()});
}

TensorView BenchPool::lengths() const {
  return TensorView::contiguous(lengths_.data(), DType::i32, {shape_.batch});
}

}  // namespace kernwright::tool
