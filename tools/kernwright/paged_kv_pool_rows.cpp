// What PagedKvPoolRun does with rows and pages.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "device_upload.hpp"
#include "paged_kv_pool_run.hpp"
#include "support/sparse_mla_reference.hpp"

namespace kernwright::tool {
namespace {

constexpr std::int64_t kValueWidth = 512, kLatentWidth = 512;
constexpr std::int64_t kPaddedRows = 5;  // of a captured step that is not full
constexpr std::uint16_t kNan = 0x7fff;   // must never get into the pool
constexpr std::int64_t kMostMoves = 8;

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

std::int64_t PagedKvPoolRun::source_row(std::int64_t token, std::int64_t layer) const {
  const std::int64_t rows = input_.virtual_pages * input_.page_size;
  return (token + pool_->layers() - 1 - layer) % rows;
}

std::vector<std::int64_t> PagedKvPoolRun::written_layers() const {
  if (pool_->layers() == 1) return {0};
  return {0, pool_->layers() - 1};
}

Result<> PagedKvPoolRun::write_layer(std::int64_t layer, std::span<const std::int64_t> tokens, bool dense,
                                     std::vector<std::uint16_t>& expected, double& ms) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  if (count == 0) return {};
  const std::int64_t rows = dense ? count + kPaddedRows : count, width = input_.d_qk;
  std::vector<std::uint16_t> staged(at(rows * width), kNan);
  for (std::int64_t i = 0; i < count; ++i) {
    std::copy_n(input_.kv.begin() + source_row(tokens[at(i)], layer) * width, width, staged.begin() + i * width);
  }
  auto device_rows = to_device(runtime_, device_, staged);
  auto in = to_device(runtime_, device_, std::vector<std::int64_t>(tokens.begin(), tokens.end()));
  auto locations = output_buffer(runtime_, device_, Bytes{static_cast<std::uint64_t>(rows) * 8});
  for (auto* buffer : {&device_rows, &in, &locations}) {
    if (!*buffer) return fail(std::move(buffer->error()));
  }
  const PagedKv& kernels = pool_->kernels();
  const TensorView v2p = pool_->hooks().v2p, virtual_ids = TensorView::contiguous(in->data(), DType::i64, {count});
  const TensorView dense_ids = TensorView::contiguous(locations->data(), DType::i64, {rows});
  if (dense) {
    Result<> done = kernels.write_locations(virtual_ids, dense_ids, v2p, stream_.handle());
    if (done) done = stream_.synchronize();
    if (!done) return done;
  }
  auto* const data = static_cast<std::uint16_t*>(device_rows->data());
  TensorView latent = TensorView::contiguous(data, DType::bf16, {rows, kLatentWidth});
  TensorView rope = TensorView::contiguous(data + kLatentWidth, DType::bf16, {rows, width - kLatentWidth});
  latent.stride[0] = rope.stride[0] = width;
  if (width == kLatentWidth) rope = {};
  const auto took = timed([&](StreamHandle stream) {
    return kernels.write_rows(latent, rope, dense ? dense_ids : virtual_ids, dense, pool_->view(layer), v2p, stream);
  });
  if (!took) return fail(Error(took.error()));
  ms += *took;
  std::vector<std::int64_t> places = support::reference_write_locations(ids_, tokens, rows);
  const std::span<const std::uint16_t> all(staged);
  support::reference_write_rows({all, all.subspan(at(kLatentWidth)), kLatentWidth, width, width - kLatentWidth, width}, places,
                                pool_->view(layer).shape[0], std::span(expected).subspan(at(pool_->first_element(layer))));
  return {};
}

/// Half of the tokens by their virtual ids, the others by dense ids with padding behind them; then every byte of the pool is looked at.
Result<> PagedKvPoolRun::write_rows() {
  auto expected = pool_->elements();
  if (!expected) return fail(std::move(expected.error()));
  const std::span<const std::int64_t> tokens(mapped_tokens_);
  double by_virtual_ms = 0, by_dense_ms = 0;
  for (const std::int64_t layer : written_layers()) {
    Result<> done = write_layer(layer, tokens.first(tokens.size() / 2), false, *expected, by_virtual_ms);
    if (done) done = write_layer(layer, tokens.subspan(tokens.size() / 2), true, *expected, by_dense_ms);
    if (!done) return done;
  }
  step("kv write, virtual ids", by_virtual_ms);
  const auto got = pool_->elements();
  if (!got) return fail(Error(got.error()));
  compare<std::uint16_t>(step("kv write, dense ids (all of the pool)", by_dense_ms), *got, *expected);
  return {};
}

Result<> PagedKvPoolRun::attend(bool moved) {
  const std::int64_t batch = input_.batch.lanes(), rows = batch * input_.query_tokens * input_.heads;
  Result<> done = out_.fill(std::byte{0xff});
  if (done) done = lse_.fill(std::byte{0xff});
  if (!done) return done;
  PagedMlaDecodeArguments a;
  a.q = TensorView::contiguous(q_.data(), DType::bf16, {batch, input_.query_tokens, input_.heads, input_.d_qk});
  a.kv = pool_->view(pool_->layers() - 1);
  a.block_table = TensorView::contiguous(table_.data(), DType::i32, {batch, table_width()});
  a.seq_lens = TensorView::contiguous(lengths_.data(), DType::i64, {batch});
  a.sm_scale = input_.sm_scale;
  a.out = TensorView::contiguous(out_.data(), DType::bf16, {batch, input_.query_tokens, input_.heads, kValueWidth});
  a.lse = TensorView::contiguous(lse_.data(), DType::f32, {batch, input_.query_tokens, input_.heads});
  a.workspace = workspace_.data();
  a.workspace_size = decode_->workspace_bytes();
  const auto ms = timed([&](StreamHandle stream) { return decode_->run(a, stream); });
  if (!ms) return fail(Error(ms.error()));
  auto out = to_host<support::Bf16>(out_, rows * kValueWidth);
  if (!out) return fail(std::move(out.error()));
  auto lse = to_host<float>(lse_, rows);
  if (!lse) return fail(std::move(lse.error()));
  step(moved ? "attention, pages moved" : "attention", *ms);
  if (moved) {
    const auto same_bits = [](const auto& a, const auto& b) {
      return std::ranges::equal(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
    };
    report_.same_after_moves = same_bits(*out, report_.out) && same_bits(*lse, report_.lse);
  } else {
    report_.out = std::move(*out);
    report_.lse = std::move(*lse);
  }
  return {};
}

Result<> PagedKvPoolRun::check_attention() {
  const std::int64_t batch = input_.batch.lanes(), sink = input_.virtual_pages * input_.page_size;
  std::vector<support::Bf16> rows = input_.kv;
  rows.resize(rows.size() + at(input_.d_qk), 0);  // what the sink has: zeros
  std::int64_t longest = 1;
  for (std::int64_t lane = 0; lane < batch; ++lane) longest = std::max(longest, input_.batch.length(lane));
  const std::int64_t tokens = batch * input_.query_tokens;
  std::vector<std::int32_t> indices(at(tokens * longest), -1), visible;
  for (std::int64_t token = 0; token < tokens; ++token) {
    const std::int64_t lane = token / input_.query_tokens, length = input_.batch.length(lane);
    // New token i stands at position length − s_q + i and sees itself.
    visible.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(0, length - input_.query_tokens + token % input_.query_tokens + 1)));
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t id = input_.batch.token(lane, i);
      indices[at(token * longest + i)] = static_cast<std::int32_t>(input_.has_page(id) ? id : sink);
    }
  }
  support::SparseMlaProblem problem;
  problem.tokens = tokens;
  problem.heads = input_.heads;
  problem.kv_rows = sink + 1;
  problem.topk = longest;
  problem.d_qk = input_.d_qk;
  problem.d_v = kValueWidth;
  problem.sm_scale = input_.sm_scale;
  problem.q = input_.q;
  problem.kv = rows;
  problem.indices = indices;
  problem.topk_length = visible;
  std::vector<std::int64_t> all(at(tokens));
  std::iota(all.begin(), all.end(), 0);
  const auto reference = support::sparse_mla_reference(problem, all, support::RepeatedPositions::each);
  report_.attention = support::check_sparse_mla(reference, {report_.out, report_.lse, {}});
  return {};
}

/// Copies of pages that requests have, in pages that none has; then those are zeroed.
Result<> PagedKvPoolRun::move_static_pages() {
  std::set<std::int64_t> used;
  for (const std::int64_t token : mapped_tokens_) used.insert(token / input_.page_size);
  std::vector<std::int64_t> moves, targets;
  auto from = used.begin();
  for (const std::int64_t to : pool_->unused_pages()) {
    if (from == used.end() || std::ssize(targets) == kMostMoves) break;
    moves.insert(moves.end(), {*from++, to});
    targets.push_back(to);
  }
  const auto count = static_cast<std::int64_t>(targets.size());
  if (count == 0) return {};
  auto expected = pool_->elements();
  if (!expected) return fail(std::move(expected.error()));
  auto device_moves = to_device(runtime_, device_, moves), device_pages = to_device(runtime_, device_, targets);
  if (!device_moves) return fail(std::move(device_moves.error()));
  if (!device_pages) return fail(std::move(device_pages.error()));
  const std::int64_t page = static_cast<std::int64_t>(pool_->page_bytes().count) / 2;
  const auto compare_all = [&](const char* name, double ms) -> Result<> {
    const auto got = pool_->elements();
    if (!got) return fail(Error(got.error()));
    compare<std::uint16_t>(step(name, ms), *got, *expected);
    return {};
  };
  const auto moved = timed([&](StreamHandle stream) {
    return pool_->kernels().move_pages(pool_->base(), pool_->page_bytes(),
                                       TensorView::contiguous(device_moves->data(), DType::i64, {count, 2}), stream);
  });
  if (!moved) return fail(Error(moved.error()));
  for (std::int64_t i = 0; i < count; ++i) {
    std::copy_n(expected->begin() + moves[at(2 * i)] * page, page, expected->begin() + moves[at(2 * i + 1)] * page);
  }
  if (auto done = compare_all("page moves (all of the pool)", *moved); !done) return done;
  const auto zeroed = timed([&](StreamHandle stream) {
    return pool_->kernels().zero_pages(pool_->base(), pool_->page_bytes(),
                                       TensorView::contiguous(device_pages->data(), DType::i64, {count}), stream);
  });
  if (!zeroed) return fail(Error(zeroed.error()));
  for (const std::int64_t target : targets) std::fill_n(expected->begin() + target * page, page, std::uint16_t{0});
  report_.moved_pages = count;
  return compare_all("page zeroing (all of the pool)", *zeroed);
}

/// Gives back every page that no request has, closes the holes, and looks at every live row where it lies now.
Result<> PagedKvPoolRun::compact() {
  UnifiedPool& pool = *pool_->unified();
  std::vector<std::int64_t> freed;
  for (std::size_t i = 1; i < pool_->unused_pages().size(); i += 2) freed.push_back(pool_->unused_pages()[i]);
  if (auto done = pool.free(PoolSide::kv, freed, stream_.handle()); !done) return done;
  const auto ms = timed([&](StreamHandle stream) -> Result<> {
    auto moved = pool.compact(PoolSide::kv, stream);
    return moved ? Result<>{} : fail(std::move(moved.error()));
  });
  if (!ms) return fail(Error(ms.error()));
  report_.moved_pages = pool.statistics(PoolSide::kv).moved_pages;
  auto ids = pool_->ids();
  if (!ids) return fail(std::move(ids.error()));
  ids_ = std::move(*ids);
  const auto elements = pool_->elements();
  if (!elements) return fail(Error(elements.error()));
  PagedKvStep& live = step("compaction (every live row)", *ms);
  std::vector<std::uint16_t> got, want;
  const std::int64_t width = input_.d_qk;
  for (const std::int64_t layer : written_layers()) {
    for (const std::int64_t token : mapped_tokens_) {
      const auto place = elements->begin() + pool_->first_element(layer) + ids_.dense(token) * width;
      got.assign(place, place + width);
      const auto source = input_.kv.begin() + source_row(token, layer) * width;
      want.assign(source, source + width);
      compare<std::uint16_t>(live, got, want);
    }
  }
  return {};
}

/// Pages that are handed out are zero, whatever was in them.
Result<> PagedKvPoolRun::zero_pages() {
  UnifiedPool& pool = *pool_->unified();
  const UnifiedPool::Statistics statistics = pool.statistics(PoolSide::kv);
  const std::int64_t count = std::min({kMostMoves, statistics.free_virtual, statistics.free_pages + statistics.holes});
  if (count == 0) return {};
  std::vector<std::int64_t> pages;
  const auto ms = timed([&](StreamHandle stream) -> Result<> {
    auto handed_out = pool.allocate(PoolSide::kv, count, stream);
    if (!handed_out) return fail(std::move(handed_out.error()));
    pages = std::move(*handed_out);
    return {};
  });
  if (!ms) return fail(Error(ms.error()));
  auto ids = pool_->ids();
  if (!ids) return fail(std::move(ids.error()));
  ids_ = std::move(*ids);
  const auto elements = pool_->elements();
  if (!elements) return fail(Error(elements.error()));
  PagedKvStep& zeroed = step("pages handed out are zero", *ms);
  const std::int64_t page = static_cast<std::int64_t>(pool_->page_bytes().count) / 2;
  const std::vector<std::uint16_t> zeros(at(page), 0);
  for (const std::int64_t id : pages) {
    const auto place = elements->begin() + ids_.v2p[at(id)] * page;
    compare<std::uint16_t>(zeroed, std::vector<std::uint16_t>(place, place + page), zeros);
  }
  return {};
}

}  // namespace kernwright::tool
