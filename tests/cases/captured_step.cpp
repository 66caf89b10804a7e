#include "cases/captured_step.hpp"

#include <algorithm>
#include <numeric>

#include "support/sparse_mla_reference.hpp"

namespace kernwright::cases {
namespace {

using support::Bf16;

constexpr std::int64_t kPages = 2 * CapturedStep::kLanes * CapturedStep::kLongest / CapturedStep::kPageSize;
constexpr std::int64_t kTableWidth = CapturedStep::kLongest / CapturedStep::kPageSize;
constexpr float kScale = 1.0F / 24.0F;

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

DeviceBuffer buffer_of(const Runtime& runtime, DeviceId device, std::int64_t bytes) {
  auto buffer = runtime.allocate(device, Bytes{static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 256))});
  REQUIRE_MESSAGE(buffer, (buffer ? "" : buffer.error().text()));
  REQUIRE(buffer->fill(std::byte{0xff}));
  return std::move(*buffer);
}

void require(const Result<>& done) {
  REQUIRE_MESSAGE(done, (done ? "" : done.error().text()));
}

template <class T>
std::vector<T> download(const DeviceBuffer& buffer, std::int64_t count) {
  std::vector<T> values(at(count));
  REQUIRE(buffer.download(std::as_writable_bytes(std::span(values))));
  return values;
}

}  // namespace

CapturedStep::CapturedStep(const Runtime& runtime, DeviceId device, bool unified) : runtime_(runtime), device_(device) {
  if (unified) {
    UnifiedPoolOptions options;
    options.device = device;
    options.page_size = kPageSize;
    options.layers = kLayers;
    options.kv_virtual_pages = kPages;
    options.size = Bytes{static_cast<std::uint64_t>(kPages * kLayers * kPageSize * kRow * 2)};
    options.compaction = Compaction::deferred;
    auto pool = UnifiedPool::create(runtime, options);
    REQUIRE_MESSAGE(pool, (pool ? "" : pool.error().text()));
    pool_.emplace(std::move(*pool));
  } else {
    PagedKvOptions options;
    options.device = device;
    options.page_size = kPageSize;
    options.pages = kPages;
    auto kernels = PagedKv::create(runtime, options);
    REQUIRE_MESSAGE(kernels, (kernels ? "" : kernels.error().text()));
    static_kernels_.emplace(std::move(*kernels));
    static_rows_ = buffer_of(runtime, device, kPages * kPageSize * kRow * 2);
    for (std::int64_t page = kPages - 1; page > 0; --page) free_static_pages_.push_back(page);
  }
  PagedMlaDecodeOptions decode;
  decode.device = device;
  decode.heads = kHeads;
  decode.page_size = kPageSize;
  decode.pool = unified ? PoolKind::unified_mla : PoolKind::static_pool;
  auto made = PagedMlaDecode::create(runtime, decode);
  REQUIRE_MESSAGE(made, (made ? "" : made.error().text()));
  decode_.emplace(std::move(*made));
  SparseMlaPrefillOptions sparse;
  sparse.device = device;
  sparse.heads = kHeads;
  sparse.max_topk = kTopk;
  sparse.group_size = 0;
  sparse.pool = decode.pool;
  auto sparse_made = SparseMlaPrefill::create(runtime, sparse);
  REQUIRE_MESSAGE(sparse_made, (sparse_made ? "" : sparse_made.error().text()));
  sparse_.emplace(std::move(*sparse_made));
  auto own_stream = runtime.create_stream(device);
  REQUIRE(own_stream);
  stream_ = std::move(*own_stream);

  for (std::int64_t slot = kLanes - 1; slot >= 0; --slot) free_slots_.push_back(slot);
  host_tokens_.assign(at(kLanes * kLongest), 0);
  host_rows_.assign(at(kPages * kPageSize * kRow), 0);
  q_ = support::random_normal_bf16(kLanes * kHeads * kRow, 3, 1);
  const auto integers = [&](DType dtype, std::int64_t count) {
    return std::make_unique<DeviceIntegers>(runtime, device, dtype, std::vector<std::int64_t>(at(count), 0));
  };
  tokens_ = integers(DType::i32, kLanes * kLongest);
  requests_ = integers(DType::i64, kLanes);
  lengths_ = integers(DType::i64, kLanes);
  offsets_ = integers(DType::i32, kLanes + 1);
  csr_ = integers(DType::i32, kLanes * kLongest);
  new_tokens_ = integers(DType::i64, kLanes);
  locations_ = integers(DType::i64, kLanes);
  topk_lengths_ = integers(DType::i32, kLanes);
  tables_.push_back(integers(DType::i32, kLanes * kTableWidth));
  indices_.push_back(integers(DType::i32, kLanes * kTopk));
  device_q_ = buffer_of(runtime, device, std::ssize(q_) * 2);
  REQUIRE(device_q_.upload(std::as_bytes(std::span(q_))));
  new_rows_ = buffer_of(runtime, device, kLanes * kRow * 2);
  dense_out_ = buffer_of(runtime, device, kLanes * kHeads * kValues * 2);
  sparse_out_ = buffer_of(runtime, device, kLanes * kHeads * kValues * 2);
  dense_lse_ = buffer_of(runtime, device, kLanes * kHeads * 4);
  sparse_lse_ = buffer_of(runtime, device, kLanes * kHeads * 4);
  workspace_ = buffer_of(runtime, device, static_cast<std::int64_t>(decode_->workspace_bytes().count));
  sparse_workspace_ = buffer_of(runtime, device, static_cast<std::int64_t>(sparse_->workspace_bytes(kLanes, view().shape[0]).count));
}

TensorView CapturedStep::view() const {
  if (pool_) return *pool_->dense_view(kLayers - 1);
  return TensorView::contiguous(static_rows_.data(), DType::bf16, {kPages * kPageSize, kRow});
}

void CapturedStep::extend(Request& request) {
  if (request.length % kPageSize == 0) {
    if (pool_) {
      const auto page = pool_->allocate(PoolSide::kv, 1, stream());
      REQUIRE_MESSAGE(page, (page ? "" : page.error().text()));
      request.pages.push_back(page->front());
    } else {
      request.pages.push_back(free_static_pages_.back());
      free_static_pages_.pop_back();
    }
  }
  const std::int64_t i = request.length++;
  host_tokens_[at(request.slot * kLongest + i)] = request.token(i);
}

/// By virtual ids, outside of any step.
void CapturedStep::write(const std::vector<std::int64_t>& tokens, const std::vector<Bf16>& rows) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  for (std::int64_t i = 0; i < count; ++i) std::copy_n(rows.begin() + i * kRow, kRow, host_rows_.begin() + tokens[at(i)] * kRow);
  DeviceBuffer staged = buffer_of(runtime_, device_, count * kRow * 2);
  REQUIRE(staged.upload(std::as_bytes(std::span(rows))));
  const DeviceIntegers locations(runtime_, device_, DType::i64, tokens);
  TensorView latent = TensorView::contiguous(staged.data(), DType::bf16, {count, kValues});
  TensorView rope = TensorView::contiguous(static_cast<Bf16*>(staged.data()) + kValues, DType::bf16, {count, kRow - kValues});
  latent.stride[0] = rope.stride[0] = kRow;
  require(kernels().write_rows(latent, rope, locations.line(), false, view(), v2p(), stream()));
  REQUIRE(stream_.synchronize());
}

void CapturedStep::begin_request(std::int64_t tokens) {
  REQUIRE(std::ssize(active_) < kLanes);
  Request request;
  request.slot = free_slots_.back();
  free_slots_.pop_back();
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < tokens; ++i) {
    extend(request);
    ids.push_back(request.token(i));
  }
  write(ids, support::random_normal_bf16(tokens * kRow, random_.next(), 1));
  active_.push_back(std::move(request));
}

void CapturedStep::end_request(std::size_t lane) {
  Request& request = active_[lane];
  if (pool_) {
    require(pool_->free(PoolSide::kv, request.pages, stream()));
  } else {
    free_static_pages_.insert(free_static_pages_.end(), request.pages.begin(), request.pages.end());
  }
  free_slots_.push_back(request.slot);
  active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(lane));
}

std::int64_t CapturedStep::compact() {
  const auto moved = pool_->compact(PoolSide::kv, stream());
  REQUIRE(moved);
  return *moved;
}

void CapturedStep::prepare(ReplayFault fault) {
  stage();
  launch_preparation(fault);
  launch_indices(fault);
  REQUIRE(stream_.synchronize());
}

/// What an engine's scheduler knows, uploaded.
void CapturedStep::stage() {
  REQUIRE(stream_.synchronize());
  std::vector<std::int64_t> requests(at(kLanes), 0), lengths(at(kLanes), 0), offsets{0};
  // Rows of lanes without a request are garbage, as a model's would be.
  const std::vector<Bf16> rows = support::random_normal_bf16(kLanes * kRow, random_.next(), 1);
  new_tokens_of_step_.assign(at(kLanes), 0);
  sparse_virtual_.assign(at(kLanes * kTopk), -1);
  sparse_lengths_.assign(at(kLanes), 0);
  for (std::size_t lane = 0; lane < active_.size(); ++lane) {
    Request& request = active_[lane];
    extend(request);
    const std::int64_t token = request.token(request.length - 1);
    std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(lane) * kRow, kRow, host_rows_.begin() + token * kRow);
    requests[lane] = request.slot;
    lengths[lane] = request.length;
    new_tokens_of_step_[lane] = token;
    sparse_lengths_[lane] = static_cast<std::int32_t>(std::min(kTopk, request.length));
    for (std::int64_t k = 0; k < sparse_lengths_[lane]; ++k) {  // every so many tokens, the newest first
      const std::int64_t i = request.length - 1 - k * (request.length / sparse_lengths_[lane]);
      sparse_virtual_[lane * at(kTopk) + at(k)] = request.token(i);
    }
  }
  for (const std::int64_t length : lengths) offsets.push_back(offsets.back() + length);
  REQUIRE(new_rows_.upload(std::as_bytes(std::span(rows))));
  tokens_->write(host_tokens_);
  requests_->write(requests);
  lengths_->write(lengths);
  offsets_->write(offsets);
  topk_lengths_->write({sparse_lengths_.begin(), sparse_lengths_.end()});
  // A static pool's ids are dense, and the host writes the zeros behind them.
  (pool_ ? new_tokens_ : locations_)->write(new_tokens_of_step_);
}

void CapturedStep::launch_preparation(ReplayFault fault) {
  if (fault == ReplayFault::block_table_rebound) {
    tables_.push_back(
        std::make_unique<DeviceIntegers>(runtime_, device_, DType::i32, std::vector<std::int64_t>(at(kLanes * kTableWidth), 0)));
  }
  const PagedKvBatch batch{tokens_->table(kLanes, kLongest, kLongest), requests_->line(), lengths_->line(), {}, v2p()};
  require(kernels().block_table(batch, tables_.back()->table(kLanes, kTableWidth, kTableWidth), stream()));
  require(kernels().token_indices(batch, offsets_->line(), csr_->line(), stream()));
  if (!pool_) return;
  const auto count = static_cast<std::int64_t>(active_.size());
  // With the fault only the part in use is written: what lies behind it is an earlier step's.
  const TensorView locations = fault == ReplayFault::stale_tail ? locations_->line(count) : locations_->line();
  require(kernels().write_locations(new_tokens_->line(count), locations, v2p(), stream()));
}

void CapturedStep::launch_indices(ReplayFault fault) {
  if (fault == ReplayFault::indices_rebound) {
    indices_.push_back(std::make_unique<DeviceIntegers>(runtime_, device_, DType::i32, sparse_virtual_));
  } else {
    indices_.back()->write(sparse_virtual_);
  }
  if (pool_) require(kernels().translate(indices_.back()->line(), indices_.back()->line(), {}, v2p(), stream()));
}

Launches CapturedStep::step(std::int64_t written_lanes) const {
  auto* const rows = static_cast<Bf16*>(new_rows_.data());
  TensorView latent = TensorView::contiguous(rows, DType::bf16, {written_lanes, kValues});
  TensorView rope = TensorView::contiguous(rows + kValues, DType::bf16, {written_lanes, kRow - kValues});
  latent.stride[0] = rope.stride[0] = kRow;
  PagedMlaDecodeArguments dense;
  dense.q = TensorView::contiguous(device_q_.data(), DType::bf16, {kLanes, 1, kHeads, kRow});
  dense.kv = view();
  dense.block_table = tables_.back()->table(kLanes, kTableWidth, kTableWidth);
  dense.seq_lens = lengths_->line();
  dense.sm_scale = kScale;
  dense.out = TensorView::contiguous(dense_out_.data(), DType::bf16, {kLanes, 1, kHeads, kValues});
  dense.lse = TensorView::contiguous(dense_lse_.data(), DType::f32, {kLanes, 1, kHeads});
  dense.workspace = workspace_.data();
  dense.workspace_size = workspace_.size();
  SparseMlaPrefillArguments sparse;
  sparse.q = TensorView::contiguous(device_q_.data(), DType::bf16, {kLanes, kHeads, kRow});
  sparse.kv = view();
  sparse.indices = indices_.back()->table(kLanes, kTopk, kTopk);
  sparse.topk_length = topk_lengths_->line();
  sparse.sm_scale = kScale;
  sparse.out = TensorView::contiguous(sparse_out_.data(), DType::bf16, {kLanes, kHeads, kValues});
  sparse.lse = TensorView::contiguous(sparse_lse_.data(), DType::f32, {kLanes, kHeads});
  sparse.workspace = sparse_workspace_.data();
  sparse.workspace_size = sparse_workspace_.size();
  return [kernels = kernels(), decode = *decode_, prefill = *sparse_, latent, rope, locations = locations_->line(written_lanes),
          kv = view(), dense, sparse](StreamHandle stream) -> Result<> {
    Result<> done = kernels.write_rows(latent, rope, locations, true, kv, {}, stream);
    if (done) done = decode.run(dense, stream);
    if (done) done = prefill.run(sparse, stream);
    return done;
  };
}

CapturedStep::Outputs CapturedStep::run(const std::function<void(StreamHandle)>& launch) {
  for (DeviceBuffer* buffer : {&dense_out_, &dense_lse_, &sparse_out_, &sparse_lse_}) REQUIRE(buffer->fill(std::byte{0xff}));
  launch(stream());
  REQUIRE(stream_.synchronize());
  constexpr std::int64_t kRows = kLanes * kHeads;
  return {download<Bf16>(dense_out_, kRows * kValues), download<Bf16>(sparse_out_, kRows * kValues), download<float>(dense_lse_, kRows),
          download<float>(sparse_lse_, kRows)};
}

support::SparseMlaCheck CapturedStep::check(const std::vector<std::int32_t>& indices, const std::vector<std::int32_t>& visible,
                                            std::int64_t width, const std::vector<Bf16>& out, const std::vector<float>& lse) const {
  support::SparseMlaProblem problem;
  problem.tokens = kLanes;
  problem.heads = kHeads;
  problem.kv_rows = kPages * kPageSize;
  problem.topk = width;
  problem.d_qk = kRow;
  problem.d_v = kValues;
  problem.q = q_;
  problem.kv = host_rows_;
  problem.indices = indices;
  problem.topk_length = visible;
  problem.sm_scale = kScale;
  std::vector<std::int64_t> tokens(at(kLanes));
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto reference = support::sparse_mla_reference(problem, tokens, support::RepeatedPositions::each);
  return support::check_sparse_mla(reference, {out, lse, {}});
}

void CapturedStep::judge(const Outputs& outputs) const {
  std::vector<std::int32_t> all(at(kLanes * kLongest), -1), visible(at(kLanes), 0);
  for (std::size_t lane = 0; lane < active_.size(); ++lane) {
    visible[lane] = static_cast<std::int32_t>(active_[lane].length);
    for (std::int64_t i = 0; i < active_[lane].length; ++i) {
      all[lane * at(kLongest) + at(i)] = static_cast<std::int32_t>(active_[lane].token(i));
    }
  }
  const auto dense = check(all, visible, kLongest, outputs.dense, outputs.dense_lse);
  CHECK_MESSAGE(dense.passed, dense.first_failure);
  const auto sparse = check({sparse_virtual_.begin(), sparse_virtual_.end()}, sparse_lengths_, kTopk, outputs.sparse, outputs.sparse_lse);
  CHECK_MESSAGE(sparse.passed, sparse.first_failure);
}

}  // namespace kernwright::cases
