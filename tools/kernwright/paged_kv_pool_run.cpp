#include "paged_kv_pool_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "backend/backend.hpp"
#include "device_upload.hpp"
#include "prepare/runtime_state.hpp"

namespace kernwright::tool {
namespace {

constexpr std::int64_t kUntouched = -0x5A5A5A5B;  // what a kernel must leave as it is
constexpr std::int64_t kPadding = 37;             // elements behind the last that counts

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

std::vector<std::int64_t> pattern(std::int64_t count) {
  return std::vector<std::int64_t>(at(count), kUntouched);
}

/// Integers on the device, as i32 or i64.
Result<DeviceBuffer> integers(const Runtime& runtime, DeviceId device, DType dtype, const std::vector<std::int64_t>& values) {
  if (dtype == DType::i64) return to_device(runtime, device, values);
  std::vector<std::int32_t> narrow;
  std::ranges::transform(values, std::back_inserter(narrow), [](std::int64_t value) { return static_cast<std::int32_t>(value); });
  return to_device(runtime, device, narrow);
}

Result<std::vector<std::int64_t>> values_of(const DeviceBuffer& buffer, DType dtype, std::int64_t count) {
  if (dtype == DType::i64) return to_host<std::int64_t>(buffer, count);
  auto narrow = to_host<std::int32_t>(buffer, count);
  if (!narrow) return fail(std::move(narrow.error()));
  return std::vector<std::int64_t>(narrow->begin(), narrow->end());
}

}  // namespace

bool PagedKvPoolReport::passed() const {
  return same_after_moves && (!attention || attention->passed) &&
         std::ranges::all_of(steps, [](const PagedKvStep& s) { return s.wrong == 0; });
}

bool PagedKvReport::passed() const {
  return std::ranges::all_of(pools, &PagedKvPoolReport::passed);
}

Result<PagedKvPoolReport> PagedKvPoolRun::run(PoolKind kind) {
  report_ = {};
  report_.kind = kind;
  const std::map<std::string, std::uint64_t> before = runtime_.counters().launches;
  Result<> done = prepare(kind);
  const bool unified = kind != PoolKind::static_pool;
  const auto then = [&](Result<> (PagedKvPoolRun::*next)()) {
    if (done) done = (this->*next)();
  };
  if (unified) then(&PagedKvPoolRun::scatter_pages);
  for (auto next : {&PagedKvPoolRun::block_table, &PagedKvPoolRun::token_indices, &PagedKvPoolRun::translate,
                    &PagedKvPoolRun::write_locations, &PagedKvPoolRun::write_rows}) {
    then(next);
  }
  if (done) done = attend(false);
  if (unified) {
    for (auto next : {&PagedKvPoolRun::compact, &PagedKvPoolRun::block_table}) then(next);
    if (done) done = attend(true);
    then(&PagedKvPoolRun::zero_pages);
  } else {
    then(&PagedKvPoolRun::move_static_pages);
  }
  if (done && options_.check) done = check_attention();
  if (!done) return fail(std::move(done.error()).within(fmt::format("the {} pool", to_string(kind))));
  for (const auto& [name, count] : runtime_.counters().launches) {
    const auto earlier = before.find(name);
    const std::uint64_t own = count - (earlier == before.end() ? 0 : earlier->second);
    if (own > 0) report_.launches[name] = own;
  }
  return std::move(report_);
}

Result<> PagedKvPoolRun::prepare(PoolKind kind) {
  auto pool = PagedKvPool::create(runtime_, device_, input_, kind);
  if (!pool) return fail(std::move(pool.error()));
  pool_.emplace(std::move(*pool));
  PagedMlaDecodeOptions options;
  options.device = device_;
  options.heads = static_cast<int>(input_.heads);
  options.query_tokens = static_cast<int>(input_.query_tokens);
  options.page_size = static_cast<int>(input_.page_size);
  options.d_qk = static_cast<int>(input_.d_qk);
  options.pool = kind;
  options.tile = options_.tile;
  auto decode = PagedMlaDecode::create(runtime_, options);
  if (!decode) return fail(std::move(decode.error()));
  decode_.emplace(std::move(*decode));
  report_.kernels = pool_->kernels().reports();
  for (PrepareReport& kernel : decode_->reports()) report_.kernels.push_back(std::move(kernel));
  report_.layers = pool_->layers();
  report_.pages = input_.virtual_pages;
  auto stream = runtime_.create_stream(device_);
  if (!stream) return fail(std::move(stream.error()));
  stream_ = std::move(*stream);

  mapped_tokens_.clear();
  const support::PagedBatch& batch = input_.batch;
  for (std::int64_t lane = 0; lane < batch.lanes(); ++lane) {
    for (std::int64_t i = 0; i < batch.length(lane); ++i) {
      if (const std::int64_t token = batch.token(lane, i); input_.has_page(token)) mapped_tokens_.push_back(token);
    }
  }
  std::ranges::sort(mapped_tokens_);
  mapped_tokens_.erase(std::unique(mapped_tokens_.begin(), mapped_tokens_.end()), mapped_tokens_.end());

  const std::int64_t rows = batch.lanes() * input_.query_tokens * input_.heads;
  Result<> done;
  const auto keep = [&done](DeviceBuffer& to, Result<DeviceBuffer> made) {
    if (made) {
      to = std::move(*made);
    } else if (done) {
      done = fail(std::move(made.error()).within("placing the input on the device"));
    }
  };
  keep(req_to_token_, integers(runtime_, device_, input_.token_dtype, batch.req_to_token));
  keep(requests_, to_device(runtime_, device_, batch.requests));
  keep(lengths_, to_device(runtime_, device_, batch.lengths));
  keep(starts_, to_device(runtime_, device_, batch.starts));
  keep(table_, integers(runtime_, device_, DType::i32, pattern(batch.lanes() * table_width())));
  keep(q_, to_device(runtime_, device_, input_.q));
  keep(out_, output_buffer(runtime_, device_, Bytes{static_cast<std::uint64_t>(rows * 512 * 2)}));
  keep(lse_, output_buffer(runtime_, device_, Bytes{static_cast<std::uint64_t>(rows * 4)}));
  keep(workspace_, runtime_.allocate(device_, decode_->workspace_bytes()));
  if (!done) return done;
  auto ids = pool_->ids();
  if (!ids) return fail(std::move(ids.error()));
  ids_ = std::move(*ids);
  return {};
}

std::int64_t PagedKvPoolRun::table_width() const {
  std::int64_t widest = 0;
  for (std::int64_t lane = 0; lane < input_.batch.lanes(); ++lane) widest = std::max(widest, input_.batch.length(lane));
  return (widest + input_.page_size - 1) / input_.page_size + 2;
}

PagedKvBatch PagedKvPoolRun::device_batch() const {
  const std::int64_t lanes = input_.batch.lanes();
  PagedKvBatch batch;
  batch.req_to_token = TensorView::contiguous(req_to_token_.data(), input_.token_dtype, {input_.slots, input_.batch.stride});
  batch.requests = TensorView::contiguous(requests_.data(), DType::i64, {lanes});
  batch.lengths = TensorView::contiguous(lengths_.data(), DType::i64, {lanes});
  if (!input_.batch.starts.empty()) batch.starts = TensorView::contiguous(starts_.data(), DType::i64, {lanes});
  batch.v2p = pool_->hooks().v2p;
  return batch;
}

Result<double> PagedKvPoolRun::timed(const Launch& launch) {
  auto start = runtime_.create_event(device_), stop = runtime_.create_event(device_);
  if (!start) return fail(std::move(start.error()));
  if (!stop) return fail(std::move(stop.error()));
  Result<> done = start->record(stream_.handle());
  if (done) done = launch(stream_.handle());
  if (done) done = stop->record(stream_.handle());
  if (done) done = stream_.synchronize();
  if (!done) return fail(std::move(done.error()));
  return stop->milliseconds_since(*start);
}

PagedKvStep& PagedKvPoolRun::step(std::string name, double ms) {
  report_.steps.push_back({std::move(name), ms, 0, 0, {}});
  return report_.steps.back();
}

template <class T>
void PagedKvPoolRun::compare(PagedKvStep& step, std::span<const T> got, std::span<const T> want) const {
  if (!options_.check) return;
  for (std::size_t i = 0; i < want.size(); ++i) {
    ++step.compared;
    if (got[i] == want[i]) continue;
    if (step.wrong++ == 0) step.first_wrong = fmt::format("element {} is {}, the reference says {}", i, got[i], want[i]);
  }
}
template void PagedKvPoolRun::compare(PagedKvStep&, std::span<const std::uint16_t>, std::span<const std::uint16_t>) const;
template void PagedKvPoolRun::compare(PagedKvStep&, std::span<const std::int64_t>, std::span<const std::int64_t>) const;

/// A pool as it is after a while: half of the pages that no request has are given back, others move into their places.
Result<> PagedKvPoolRun::scatter_pages() {
  std::vector<std::int64_t> freed;
  for (std::size_t i = 0; i < pool_->unused_pages().size(); i += 2) freed.push_back(pool_->unused_pages()[i]);
  UnifiedPool& pool = *pool_->unified();
  const auto ms = timed([&](StreamHandle stream) -> Result<> {
    if (auto done = pool.free(PoolSide::kv, freed, stream); !done) return done;
    auto moved = pool.compact(PoolSide::kv, stream);
    return moved ? Result<>{} : fail(std::move(moved.error()));
  });
  if (!ms) return fail(Error(ms.error()));
  auto ids = pool_->ids();
  if (!ids) return fail(std::move(ids.error()));
  ids_ = std::move(*ids);
  const TensorView p2v = pool.p2v(PoolSide::kv);
  std::vector<std::int64_t> back(at(p2v.shape[0]));
  const auto backend = runtime_.state().backend(device_.backend);
  if (auto copied = backend->copy_from_device(device_, std::as_writable_bytes(std::span(back)), p2v.data); !copied) return copied;
  // Each page that is bound is found again from where it lies; what was freed is bound to nothing.
  PagedKvStep& tables = step("free and compact", *ms);
  std::vector<std::int64_t> got, want;
  for (std::int64_t page = 0; page < input_.virtual_pages; ++page) {
    const bool is_freed = std::ranges::binary_search(freed, page);
    const std::int64_t place = ids_.v2p[at(page)];
    want.push_back(is_freed ? -1 : page);
    got.push_back(place < 0 || place >= std::ssize(back) ? -1 : back[at(place)]);
  }
  compare<std::int64_t>(tables, got, want);
  return {};
}

Result<> PagedKvPoolRun::block_table() {
  const std::int64_t lanes = input_.batch.lanes(), width = table_width();
  const std::vector<std::int64_t> before = pattern(lanes * width);
  auto fresh = integers(runtime_, device_, DType::i32, before);
  if (!fresh) return fail(std::move(fresh.error()));
  table_ = std::move(*fresh);
  const TensorView out = TensorView::contiguous(table_.data(), DType::i32, {lanes, width});
  const auto ms = timed([&](StreamHandle stream) { return pool_->kernels().block_table(device_batch(), out, stream); });
  if (!ms) return fail(Error(ms.error()));
  const auto got = to_host<std::int32_t>(table_, lanes * width);
  if (!got) return fail(Error(got.error()));
  report_.block_table = *got;
  std::vector<std::int64_t> want = before;
  support::reference_block_table(ids_, input_.batch, width, want);
  const std::vector<std::int64_t> wide(got->begin(), got->end());
  compare<std::int64_t>(step("block table", *ms), wide, want);
  return {};
}

Result<> PagedKvPoolRun::token_indices() {
  const DType dtype = pool_->kernels().options().index_dtype;
  const std::vector<std::int64_t> offsets = input_.batch.offsets();
  std::vector<std::int64_t> want = pattern(offsets.back() + kPadding);
  auto bounds = integers(runtime_, device_, DType::i32, offsets), out = integers(runtime_, device_, dtype, want);
  if (!bounds) return fail(std::move(bounds.error()));
  if (!out) return fail(std::move(out.error()));
  const auto count = static_cast<std::int64_t>(want.size());
  const auto ms = timed([&](StreamHandle stream) {
    return pool_->kernels().token_indices(device_batch(),
                                          TensorView::contiguous(bounds->data(), DType::i32, {static_cast<std::int64_t>(offsets.size())}),
                                          TensorView::contiguous(out->data(), dtype, {count}), stream);
  });
  if (!ms) return fail(Error(ms.error()));
  const auto got = values_of(*out, dtype, count);
  if (!got) return fail(Error(got.error()));
  report_.token_indices.assign(got->begin(), got->begin() + offsets.back());
  support::reference_token_indices(ids_, input_.batch, want);
  compare<std::int64_t>(step("token indices", *ms), *got, want);
  return {};
}

Result<> PagedKvPoolRun::translate() {
  const DType dtype = pool_->kernels().options().index_dtype;
  // All tokens, some that no page has, and behind the count what must stay as it is.
  std::vector<std::int64_t> list = mapped_tokens_;
  for (const std::int64_t stranger : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{std::numeric_limits<std::int32_t>::min()},
                                      input_.virtual_pages * input_.page_size, std::int64_t{std::numeric_limits<std::int32_t>::max()}}) {
    list.push_back(stranger);
  }
  const auto counted = static_cast<std::int64_t>(list.size()), capacity = counted + kPadding;
  list.resize(at(capacity), kUntouched);
  auto lying = integers(runtime_, device_, dtype, list), number = integers(runtime_, device_, DType::i32, {counted});
  if (!lying) return fail(std::move(lying.error()));
  if (!number) return fail(std::move(number.error()));
  const TensorView in_place = TensorView::contiguous(lying->data(), dtype, {capacity});
  const auto ms = timed([&](StreamHandle stream) {
    return pool_->kernels().translate(in_place, in_place, TensorView::contiguous(number->data(), DType::i32, {1}), pool_->hooks().v2p,
                                      stream);
  });
  if (!ms) return fail(Error(ms.error()));
  const auto got = values_of(*lying, dtype, capacity);
  if (!got) return fail(Error(got.error()));
  support::reference_translate(ids_, counted, list);
  compare<std::int64_t>(step("translation in place", *ms), *got, list);
  return {};
}

Result<> PagedKvPoolRun::write_locations() {
  const auto count = static_cast<std::int64_t>(mapped_tokens_.size()), capacity = count + kPadding;
  auto in = to_device(runtime_, device_, mapped_tokens_), out = to_device(runtime_, device_, pattern(capacity));  // a stale tail
  if (!in) return fail(std::move(in.error()));
  if (!out) return fail(std::move(out.error()));
  const auto ms = timed([&](StreamHandle stream) {
    return pool_->kernels().write_locations(TensorView::contiguous(in->data(), DType::i64, {count}),
                                            TensorView::contiguous(out->data(), DType::i64, {capacity}), pool_->hooks().v2p, stream);
  });
  if (!ms) return fail(Error(ms.error()));
  const auto got = to_host<std::int64_t>(*out, capacity);
  if (!got) return fail(Error(got.error()));
  report_.write_locations = *got;
  compare<std::int64_t>(step("write locations", *ms), *got, support::reference_write_locations(ids_, mapped_tokens_, capacity));
  return {};
}

}  // namespace kernwright::tool
