#include "engine.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

namespace decode_loop {
namespace {

using namespace kernwright;

constexpr std::int64_t kRow = 576, kLatent = 512, kRope = 64;
constexpr std::uint64_t kOneInSoMany = 48;  // requests that end of themselves at a step

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}
float to_float(Bf16 bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
Bf16 to_bf16(float value) {
  return static_cast<Bf16>((std::bit_cast<std::uint32_t>(value) + 0x8000U) >> 16);
}

template <class T>
Result<> upload(DeviceBuffer& buffer, const std::vector<T>& values) {
  return buffer.upload(std::as_bytes(std::span(values)));
}
template <class T>
Result<> download(const DeviceBuffer& buffer, std::vector<T>& values) {
  return buffer.download(std::as_writable_bytes(std::span(values)));
}

}  // namespace

Engine::Engine(const Runtime& runtime, const EngineOptions& options, UnifiedPool pool, PagedMlaDecode decode)
    : runtime_(runtime), options_(options), pool_(std::move(pool)), decode_(std::move(decode)), random_(options.seed) {
  for (std::int64_t slot = options.lanes - 1; slot >= 0; --slot) free_slots_.push_back(slot);
  req_to_token_.resize(at(options.lanes * options.longest));
}

Result<Engine> Engine::create(const Runtime& runtime, const EngineOptions& options) {
  const std::int64_t pages = options.lanes * ((options.longest + options.page_size - 1) / options.page_size) + 1;
  UnifiedPoolOptions pool_options;
  pool_options.device = options.device;
  pool_options.page_size = options.page_size;
  pool_options.layers = options.layers;
  pool_options.kv_virtual_pages = pages;
  pool_options.size = Bytes{static_cast<std::uint64_t>(pages * options.layers * options.page_size * kRow * 2)};
  auto pool = UnifiedPool::create(runtime, pool_options);
  if (!pool) return fail(std::move(pool.error()));
  PagedMlaDecodeOptions decode_options;
  decode_options.device = options.device;
  decode_options.heads = options.heads;
  decode_options.page_size = options.page_size;
  decode_options.pool = pool->kind();
  auto decode = PagedMlaDecode::create(runtime, decode_options);
  if (!decode) return fail(std::move(decode.error()));
  Engine engine(runtime, options, std::move(*pool), std::move(*decode));
  if (auto allocated = engine.allocate(); !allocated) return fail(std::move(allocated.error()));
  return engine;
}

/// Everything that the step reads or writes has one address for as long as the engine lives.
Result<> Engine::allocate() {
  auto stream = runtime_.create_stream(options_.device);
  if (!stream) return fail(std::move(stream.error()));
  stream_ = std::move(*stream);
  const std::int64_t lanes = options_.lanes, layers = options_.layers, heads = options_.heads;
  const std::int64_t width = (options_.longest + options_.page_size - 1) / options_.page_size;
  Result<> done;
  const auto make = [&](DeviceBuffer& buffer, std::int64_t bytes) {
    if (!done) return;
    auto made = runtime_.allocate(options_.device, Bytes{static_cast<std::uint64_t>(bytes)});
    if (!made) {
      done = fail(std::move(made.error()));
      return;
    }
    buffer = std::move(*made);
    done = buffer.fill(std::byte{0xff});  // −1 in the block table, once; NaN in the outputs
  };
  make(tokens_, lanes * options_.longest * 4);
  make(requests_, lanes * 8);
  make(lengths_, lanes * 8);
  make(new_tokens_, lanes * 8);
  make(locations_, lanes * 8);
  make(table_, lanes * width * 4);
  make(device_q_, layers * lanes * heads * kRow * 2);
  make(device_rows_, layers * lanes * kRow * 2);
  make(out_, layers * lanes * heads * kLatent * 2);
  make(lse_, layers * lanes * heads * 4);
  make(workspace_, static_cast<std::int64_t>(decode_.workspace_bytes().count));
  return done;
}

std::vector<Bf16> Engine::random_rows(std::int64_t count) {
  std::normal_distribution<float> normal;
  std::vector<Bf16> rows(at(count * kRow));
  for (Bf16& value : rows) value = to_bf16(normal(random_));
  return rows;
}

std::int64_t Engine::token_id(const Request& request, std::int64_t token) const {
  return request.pages[at(token / options_.page_size)] * options_.page_size + token % options_.page_size;
}

Result<> Engine::extend(Request& request) {
  if (request.length % options_.page_size == 0) {
    auto page = pool_.allocate(PoolSide::kv, 1, stream());
    if (!page) return fail(std::move(page.error()));
    request.pages.push_back(page->front());
  }
  const std::int64_t token = request.length++;
  req_to_token_[at(request.slot * options_.longest + token)] = static_cast<std::int32_t>(token_id(request, token));
  return {};
}

Result<> Engine::finish_requests() {
  for (std::size_t lane = 0; lane < active_.size();) {
    const bool ends = active_[lane].length >= options_.longest || (active_.size() > 1 && random_() % kOneInSoMany == 0);
    if (!ends) {
      ++lane;
      continue;
    }
    if (auto freed = pool_.free(PoolSide::kv, active_[lane].pages, stream()); !freed) return freed;
    free_slots_.push_back(active_[lane].slot);
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(lane));
    ++statistics_.finished;
  }
  return {};
}

/// Rows that the prompt's tokens have in every layer, written by their virtual ids: no graph is about.
Result<> Engine::write_prompt(Request& request) {
  const std::int64_t count = request.length;
  std::vector<std::int64_t> ids(at(count));
  for (std::int64_t token = 0; token < count; ++token) ids[at(token)] = token_id(request, token);
  auto locations = runtime_.allocate(options_.device, Bytes{ids.size() * 8});
  auto staged = runtime_.allocate(options_.device, Bytes{static_cast<std::uint64_t>(count * kRow * 2)});
  if (!locations) return fail(std::move(locations.error()));
  if (!staged) return fail(std::move(staged.error()));
  if (auto done = upload(*locations, ids); !done) return done;
  for (int layer = 0; layer < options_.layers; ++layer) {
    request.rows.push_back(random_rows(count));
    if (auto done = upload(*staged, request.rows.back()); !done) return done;
    auto* const rows = static_cast<Bf16*>(staged->data());
    TensorView latent = TensorView::contiguous(rows, DType::bf16, {count, kLatent});
    TensorView rope = TensorView::contiguous(rows + kLatent, DType::bf16, {count, kRope});
    latent.stride[0] = rope.stride[0] = kRow;
    auto view = pool_.dense_view(layer);
    if (!view) return fail(std::move(view.error()));
    Result<> done = pool_.kernels().write_rows(latent, rope, TensorView::contiguous(locations->data(), DType::i64, {count}), false, *view,
                                               pool_.hooks().v2p, stream());
    if (done) done = stream_.synchronize();  // the next layer's rows go to the same memory
    if (!done) return done;
  }
  return {};
}

Result<> Engine::admit_request() {
  if (std::ssize(active_) == options_.lanes || (!active_.empty() && random_() % 3 != 0)) return {};
  Request request;
  request.slot = free_slots_.back();
  free_slots_.pop_back();
  const auto prompt = 1 + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(3 * options_.page_size));
  for (std::int64_t token = 0; token < std::min(prompt, options_.longest - 1); ++token) {
    if (auto done = extend(request); !done) return done;
  }
  if (auto done = write_prompt(request); !done) return done;
  active_.push_back(std::move(request));
  ++statistics_.requests;
  statistics_.largest_batch = std::max<std::int64_t>(statistics_.largest_batch, std::ssize(active_));
  return {};
}

/// One token more for each request. Its rows come with the step: a model's layers make them.
Result<> Engine::append_tokens() {
  q_.clear();
  rows_.clear();
  for (std::int64_t layer = 0; layer < options_.layers; ++layer) {
    const std::vector<Bf16> rows = random_rows(options_.lanes), q = random_rows(options_.lanes * options_.heads);
    for (std::size_t lane = 0; lane < active_.size(); ++lane) {
      const auto row = rows.begin() + static_cast<std::ptrdiff_t>(lane) * kRow;
      active_[lane].rows[at(layer)].insert(active_[lane].rows[at(layer)].end(), row, row + kRow);
    }
    q_.insert(q_.end(), q.begin(), q.end());
    rows_.insert(rows_.end(), rows.begin(), rows.end());
  }
  for (Request& request : active_) {
    if (auto done = extend(request); !done) return done;
  }
  return {};
}

Result<> Engine::upload_step() {
  std::vector<std::int64_t> requests(at(options_.lanes), 0), lengths(at(options_.lanes), 0), new_tokens;  // lanes without a request: 0
  for (std::size_t lane = 0; lane < active_.size(); ++lane) {
    requests[lane] = active_[lane].slot;
    lengths[lane] = active_[lane].length;
    new_tokens.push_back(token_id(active_[lane], active_[lane].length - 1));
  }
  Result<> done = upload(tokens_, req_to_token_);
  if (done) done = upload(requests_, requests);
  if (done) done = upload(lengths_, lengths);
  if (done) done = upload(new_tokens_, new_tokens);
  if (done) done = upload(device_q_, q_);
  if (done) done = upload(device_rows_, rows_);
  if (!done) return done;

  const std::int64_t lanes = options_.lanes, width = (options_.longest + options_.page_size - 1) / options_.page_size;
  PagedKvBatch batch;
  batch.req_to_token = TensorView::contiguous(tokens_.data(), DType::i32, {lanes, options_.longest});
  batch.requests = TensorView::contiguous(requests_.data(), DType::i64, {lanes});
  batch.lengths = TensorView::contiguous(lengths_.data(), DType::i64, {lanes});
  batch.v2p = pool_.hooks().v2p;
  done = pool_.kernels().block_table(batch, TensorView::contiguous(table_.data(), DType::i32, {lanes, width}), stream());
  if (!done) return done;
  // The tail of zeros: a lane without a request must not write where an earlier step's request did.
  return pool_.kernels().write_locations(TensorView::contiguous(new_tokens_.data(), DType::i64, {std::ssize(active_)}),
                                         TensorView::contiguous(locations_.data(), DType::i64, {lanes}), pool_.hooks().v2p, stream());
}

Result<> Engine::prepare_step() {
  Result<> done = stream_.synchronize();  // what is uploaded below may still be read
  if (done) done = finish_requests();
  if (done) done = admit_request();
  if (done) done = append_tokens();
  if (done) done = upload_step();
  return done;
}

TensorView Engine::new_rows(std::int64_t layer, std::int64_t first_column, std::int64_t columns) const {
  auto* const rows = static_cast<Bf16*>(device_rows_.data()) + layer * options_.lanes * kRow + first_column;
  TensorView view = TensorView::contiguous(rows, DType::bf16, {options_.lanes, columns});
  view.stride[0] = kRow;
  return view;
}

Result<> Engine::enqueue_step() const {
  const std::int64_t lanes = options_.lanes, heads = options_.heads;
  const std::int64_t width = (options_.longest + options_.page_size - 1) / options_.page_size;
  const TensorView locations = TensorView::contiguous(locations_.data(), DType::i64, {lanes});
  for (int layer = 0; layer < options_.layers; ++layer) {
    const auto view = pool_.dense_view(layer);
    if (!view) return fail(Error(view.error()));
    // The locations are dense already: no translation is captured.
    if (auto done = pool_.kernels().write_rows(new_rows(layer, 0, kLatent), new_rows(layer, kLatent, kRope), locations, true, *view, {},
                                               stream_.handle());
        !done) {
      return done;
    }
    PagedMlaDecodeArguments a;
    a.q = TensorView::contiguous(static_cast<Bf16*>(device_q_.data()) + layer * lanes * heads * kRow, DType::bf16, {lanes, 1, heads, kRow});
    a.kv = *view;
    a.block_table = TensorView::contiguous(table_.data(), DType::i32, {lanes, width});
    a.seq_lens = TensorView::contiguous(lengths_.data(), DType::i64, {lanes});
    a.sm_scale = 1.0F / 24.0F;
    a.out =
        TensorView::contiguous(static_cast<Bf16*>(out_.data()) + layer * lanes * heads * kLatent, DType::bf16, {lanes, 1, heads, kLatent});
    a.lse = TensorView::contiguous(static_cast<float*>(lse_.data()) + layer * lanes * heads, DType::f32, {lanes, 1, heads});
    a.workspace = workspace_.data();
    a.workspace_size = workspace_.size();
    if (auto done = decode_.run(a, stream_.handle()); !done) return done;
  }
  return {};
}

Result<Engine::Outputs> Engine::outputs() const {
  const std::int64_t rows = options_.layers * options_.lanes * options_.heads;
  Outputs outputs{std::vector<Bf16>(at(rows * kLatent)), std::vector<float>(at(rows))};
  Result<> done = download(out_, outputs.out);
  if (done) done = download(lse_, outputs.lse);
  if (!done) return fail(std::move(done.error()));
  return outputs;
}

double Engine::distance_to_reference(const Outputs& outputs) {
  const auto lane = static_cast<std::int64_t>(random_() % active_.size());
  const auto layer = static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(options_.layers));
  const auto head = static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(options_.heads));
  const std::vector<Bf16>& rows = active_[at(lane)].rows[at(layer)];
  const std::int64_t row = (layer * options_.lanes + lane) * options_.heads + head, tokens = active_[at(lane)].length;
  std::vector<double> weights(at(tokens)), want(at(kLatent));
  for (std::int64_t token = 0; token < tokens; ++token) {
    double logit = 0;
    for (std::int64_t d = 0; d < kRow; ++d)
      logit += double{to_float(q_[at(row * kRow + d)])} * double{to_float(rows[at(token * kRow + d)])};
    weights[at(token)] = logit / 24;
  }
  const double largest = *std::ranges::max_element(weights);
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - largest);
  for (std::int64_t token = 0; token < tokens; ++token) {
    for (std::int64_t d = 0; d < kLatent; ++d) want[at(d)] += weights[at(token)] / sum * double{to_float(rows[at(token * kRow + d)])};
  }
  double apart = 0, norm = 0;
  for (std::int64_t d = 0; d < kLatent; ++d) {
    const double difference = double{to_float(outputs.out[at(row * kLatent + d)])} - want[at(d)];
    apart += difference * difference;
    norm += want[at(d)] * want[at(d)];
  }
  return std::sqrt(apart / norm);
}

Engine::Statistics Engine::statistics() const {
  Statistics statistics = statistics_;
  statistics.moved_pages = pool_.statistics(PoolSide::kv).moved_pages;
  return statistics;
}

}  // namespace decode_loop
