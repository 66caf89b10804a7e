#include "kernwright/paged_kv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "ops/paged_kv_options.hpp"
#include "ops/stepping_kernel.hpp"
#include "ops/tensor_check.hpp"
#include "paged_kv/block_table_params.cuh"
#include "paged_kv/move_pages_params.cuh"
#include "paged_kv/token_indices_params.cuh"
#include "paged_kv/translate_params.cuh"
#include "paged_kv/write_locations_params.cuh"
#include "paged_kv/write_rows_params.cuh"
#include "paged_kv/zero_pages_params.cuh"
#include "prepare/boundary.hpp"

namespace kernwright {
namespace {

namespace kw_paged = kw::paged_kv;

constexpr std::int64_t kLargestGrid = 0x7fff'ffff;  // blocks in x, CUDA C++ programming guide
constexpr std::int64_t kVectorBytes = 16;
constexpr std::int64_t kBlocksPerMultiprocessor = 8;
constexpr std::int64_t kMostPartsPerRequest = 64;
/// Of block tables, a multiprocessor: all that is in flight at once has its blocks resident, so that a large batch is one wave of them.
constexpr std::int64_t kCellsUnderWay = 4096;
constexpr std::uintptr_t kWord = 4;
constexpr std::uintptr_t kLongWord = 8;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

std::uintptr_t size_of(DType dtype) {
  return dtype == DType::i64 ? kLongWord : kWord;
}

/// A dense integer tensor.
TensorRule integers(std::string_view name, DType dtype, std::span<const std::int64_t> shape) {
  return {name, dtype, shape, true, 1, size_of(dtype)};
}

/// The grid of one dimension, or an error that says which count is too large.
Result<Grid> line(std::string_view what, std::int64_t count, std::int64_t parts) {
  if (count <= kLargestGrid / parts) return Grid{static_cast<std::uint32_t>(count * parts), 1, 1};
  return fail(ErrorCode::invalid_argument, fmt::format("{} {} need more than {} blocks; give fewer at once", count, what, kLargestGrid));
}

}  // namespace

struct PagedKv::State {
  PagedKvOptions options;
  int multiprocessors = 1;
  std::unique_ptr<SteppingKernel> block_table, token_indices, translate, write_locations, write_dense_rows, move_pages, zero_pages;
  std::unique_ptr<SteppingKernel> write_virtual_rows;  ///< Null in a static pool, where virtual ids are dense.

  static Result<PagedKv> make(const Runtime& runtime, const PagedKvOptions& options);

  /// Blocks for each of `count` equal shares of work: enough to fill the device, from the count alone.
  [[nodiscard]] std::int64_t parts(std::int64_t count, std::int64_t most) const noexcept {
    return std::clamp(ceil_div(kBlocksPerMultiprocessor * multiprocessors, count), std::int64_t{1}, std::max(most, std::int64_t{1}));
  }
  /// Blocks for each request of a block table.
  [[nodiscard]] std::int64_t table_parts(std::int64_t count) const noexcept {
    const std::int64_t blocks = kCellsUnderWay * multiprocessors / block_table->plan().rows_per_block;
    return std::clamp(blocks / count, std::int64_t{1}, kMostPartsPerRequest);
  }
  /// Blocks for a loop over `count` elements, one a thread at most.
  [[nodiscard]] Grid sweep(const SteppingKernel& kernel, std::int64_t count) const noexcept {
    const std::int64_t blocks = std::min(ceil_div(count, kernel.plan().threads), kBlocksPerMultiprocessor * multiprocessors);
    return {static_cast<std::uint32_t>(blocks), 1, 1};
  }

  struct Table {
    const long long* v2p = nullptr;
    long long virtual_pages = 0;
  };
  [[nodiscard]] Result<Table> table(const TensorView& v2p) const;
  struct Batch {
    std::int64_t size = 0;
    Table table;
  };
  [[nodiscard]] Result<Batch> check_batch(const PagedKvBatch& batch) const;
  /// The fields that a request's kernels share.
  template <class Params>
  Params batch_params(const PagedKvBatch& batch, const Batch& checked) const {
    Params params{};
    params.req_to_token = batch.req_to_token.data;
    params.requests = batch.requests.data;
    params.lengths = batch.lengths.data;
    params.starts = batch.starts.data;
    params.v2p = checked.table.v2p;
    params.virtual_pages = checked.table.virtual_pages;
    params.token_stride = batch.req_to_token.stride[0];
    params.batch = checked.size;
    params.parts = static_cast<int>(parts(checked.size, kMostPartsPerRequest));
    return params;
  }
};

Result<PagedKv> PagedKv::create(const Runtime& runtime, const PagedKvOptions& options) {
  return without_exceptions([&] { return State::make(runtime, options); });
}

Result<PagedKv> PagedKv::State::make(const Runtime& runtime, const PagedKvOptions& options) {
  const std::string step = "making the paged KV kernels";
  if (auto checked = check_options(options); !checked) return fail(std::move(checked.error()).within(step));
  auto device = runtime.device(options.device);
  if (!device) return fail(std::move(device.error()).within(step));
  auto state = std::make_shared<State>();
  state->options = options;
  state->multiprocessors = std::max(1, device->multiprocessors);

  struct Place {
    std::unique_ptr<SteppingKernel>& kernel;
    std::size_t params_bytes;
  };
  const std::array<Place, 8> places{{{state->block_table, sizeof(kw_paged::BlockTableParams)},
                                     {state->token_indices, sizeof(kw_paged::TokenIndicesParams)},
                                     {state->translate, sizeof(kw_paged::TranslateParams)},
                                     {state->write_locations, sizeof(kw_paged::WriteLocationsParams)},
                                     {state->write_dense_rows, sizeof(kw_paged::WriteRowsParams)},
                                     {state->move_pages, sizeof(kw_paged::MovePagesParams)},
                                     {state->zero_pages, sizeof(kw_paged::ZeroPagesParams)},
                                     {state->write_virtual_rows, sizeof(kw_paged::WriteRowsParams)}}};
  std::vector<PagedKvKernel> all = kernels_of(options);
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto kernel = SteppingKernel::create(runtime, {all[i].template_name, std::move(all[i].specialisation), options.device, std::nullopt,
                                                   places[i].params_bytes, std::nullopt});
    if (!kernel) return fail(std::move(kernel.error()).within(step));
    places[i].kernel = std::move(*kernel);
  }
  return PagedKv(std::move(state));
}

Result<PagedKv::State::Table> PagedKv::State::table(const TensorView& v2p) const {
  if (!v2p.present()) return Table{};
  if (!options.has_table) {
    return fail(ErrorCode::invalid_argument, "argument v2p: a table came; legal is none, since the op was made without has_table");
  }
  constexpr std::array<std::int64_t, 1> kAny{-1};
  if (auto checked = check_tensor(v2p, integers("v2p", DType::i64, kAny)); !checked) return fail(std::move(checked.error()));
  if (v2p.shape[0] < 1)
    return fail(ErrorCode::invalid_argument, "argument v2p: the shape is [0]; legal is [V + 1], the tombstone row last");
  return Table{static_cast<const long long*>(v2p.data), v2p.shape[0] - 1};
}

Result<PagedKv::State::Batch> PagedKv::State::check_batch(const PagedKvBatch& batch) const {
  const std::int64_t size = batch.requests.rank == 1 ? batch.requests.shape[0] : -1;
  constexpr std::array<std::int64_t, 2> kAny{-1, -1};
  const std::array<std::int64_t, 1> lanes{size};
  const TensorRule tokens{"req_to_token", options.token_dtype, kAny, false, 1, size_of(options.token_dtype)};
  if (auto r = check_tensor(batch.req_to_token, tokens); !r) return fail(std::move(r.error()));
  if (auto r = check_tensor(batch.requests, integers("requests", options.request_dtype, lanes)); !r) return fail(std::move(r.error()));
  if (auto r = check_tensor(batch.lengths, integers("lengths", options.request_dtype, lanes)); !r) return fail(std::move(r.error()));
  if (batch.starts.present()) {
    if (auto r = check_tensor(batch.starts, integers("starts", options.request_dtype, lanes)); !r) return fail(std::move(r.error()));
  }
  auto table = this->table(batch.v2p);
  if (!table) return fail(std::move(table.error()));
  return Batch{size, *table};
}

Result<> PagedKv::block_table(const PagedKvBatch& batch, const TensorView& out, StreamHandle stream) const {
  const auto checked = state_->check_batch(batch);
  if (!checked) return fail(Error(checked.error()));
  const std::array<std::int64_t, 2> shape{checked->size, -1};
  if (auto r = check_tensor(out, {"out", DType::i32, shape, false, 1, kWord}); !r) return r;
  if (checked->size == 0) return {};
  auto params = state_->batch_params<kw_paged::BlockTableParams>(batch, *checked);
  params.parts = static_cast<int>(state_->table_parts(checked->size));
  params.out = static_cast<int*>(out.data);
  params.out_stride = out.stride[0];
  const auto grid = line("requests", checked->size, params.parts);
  return grid ? state_->block_table->launch(*grid, params, stream) : fail(Error(grid.error()));
}

Result<> PagedKv::token_indices(const PagedKvBatch& batch, const TensorView& offsets, const TensorView& out, StreamHandle stream) const {
  const auto checked = state_->check_batch(batch);
  if (!checked) return fail(Error(checked.error()));
  const std::array<std::int64_t, 1> bounds{checked->size + 1};
  constexpr std::array<std::int64_t, 1> kAny{-1};
  if (auto r = check_tensor(offsets, integers("offsets", DType::i32, bounds)); !r) return r;
  if (auto r = check_tensor(out, integers("out", state_->options.index_dtype, kAny)); !r) return r;
  if (checked->size == 0) return {};
  auto params = state_->batch_params<kw_paged::TokenIndicesParams>(batch, *checked);
  params.offsets = static_cast<const int*>(offsets.data);
  params.out = out.data;
  const auto grid = line("requests", checked->size, params.parts);
  return grid ? state_->token_indices->launch(*grid, params, stream) : fail(Error(grid.error()));
}

Result<> PagedKv::translate(const TensorView& in, const TensorView& out, const TensorView& count, const TensorView& v2p,
                            StreamHandle stream) const {
  constexpr std::array<std::int64_t, 1> kAny{-1};
  constexpr std::array<std::int64_t, 1> kOne{1};
  if (auto r = check_tensor(in, integers("in", state_->options.index_dtype, kAny)); !r) return r;
  const std::array<std::int64_t, 1> same{in.shape[0]};
  if (auto r = check_tensor(out, integers("out", state_->options.index_dtype, same)); !r) return r;
  if (count.present()) {
    if (auto r = check_tensor(count, integers("count", DType::i32, kOne)); !r) return r;
  }
  const auto table = state_->table(v2p);
  if (!table) return fail(Error(table.error()));
  if (in.shape[0] == 0) return {};
  kw_paged::TranslateParams params{};
  params.in = in.data;
  params.out = out.data;
  params.count = static_cast<const int*>(count.data);
  params.v2p = table->v2p;
  params.virtual_pages = table->virtual_pages;
  params.capacity = in.shape[0];
  return state_->translate->launch(state_->sweep(*state_->translate, params.capacity), params, stream);
}

Result<> PagedKv::write_locations(const TensorView& in, const TensorView& out, const TensorView& v2p, StreamHandle stream) const {
  constexpr std::array<std::int64_t, 1> kAny{-1};
  if (auto r = check_tensor(in, integers("in", DType::i64, kAny)); !r) return r;
  if (auto r = check_tensor(out, integers("out", DType::i64, kAny)); !r) return r;
  if (in.shape[0] > out.shape[0]) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("argument in: {} locations came; legal are at most {}, the capacity of out", in.shape[0], out.shape[0]));
  }
  const auto table = state_->table(v2p);
  if (!table) return fail(Error(table.error()));
  if (out.shape[0] == 0) return {};
  kw_paged::WriteLocationsParams params{};
  params.in = static_cast<const long long*>(in.data);
  params.out = static_cast<long long*>(out.data);
  params.v2p = table->v2p;
  params.virtual_pages = table->virtual_pages;
  params.count = in.shape[0];
  params.capacity = out.shape[0];
  return state_->write_locations->launch(state_->sweep(*state_->write_locations, params.capacity), params, stream);
}

Result<> PagedKv::write_rows(const TensorView& latent, const TensorView& rope, const TensorView& locations, bool dense,
                             const TensorView& view, const TensorView& v2p, StreamHandle stream) const {
  const PagedKvOptions& options = state_->options;
  const std::int64_t granule = kVectorBytes / element_bytes(options.dtype);
  const auto rows = [&](std::string_view name, std::span<const std::int64_t> shape) {
    return TensorRule{name, options.dtype, shape, false, granule, kVectorBytes};
  };
  const std::array<std::int64_t, 2> latent_shape{-1, options.latent_width};
  if (auto r = check_tensor(latent, rows("latent", latent_shape)); !r) return r;
  const std::int64_t count = latent.shape[0];
  const std::array<std::int64_t, 2> rope_shape{count, options.rope_width};
  if (options.rope_width > 0) {
    if (auto r = check_tensor(rope, rows("rope", rope_shape)); !r) return r;
  } else if (rope.present()) {
    return fail(ErrorCode::invalid_argument, "argument rope: a tensor came; legal is none, since the op was made with rope_width 0");
  }
  const std::array<std::int64_t, 1> lanes{count};
  const std::array<std::int64_t, 2> view_shape{-1, options.latent_width + options.rope_width};
  if (auto r = check_tensor(locations, integers("locations", DType::i64, lanes)); !r) return r;
  if (auto r = check_tensor(view, rows("view", view_shape)); !r) return r;
  const auto table = state_->table(v2p);
  if (!table) return fail(Error(table.error()));
  if (count == 0 || view.shape[0] == 0) return {};
  kw_paged::WriteRowsParams params{};
  params.latent = latent.data;
  params.rope = rope.data;
  params.locations = static_cast<const long long*>(locations.data);
  params.v2p = table->v2p;
  params.view = view.data;
  params.virtual_pages = table->virtual_pages;
  params.latent_stride = latent.stride[0];
  params.rope_stride = rope.stride[0];
  params.row_stride = view.stride[0];
  params.view_rows = view.shape[0];
  params.count = count;
  SteppingKernel& kernel = dense || !state_->write_virtual_rows ? *state_->write_dense_rows : *state_->write_virtual_rows;
  const auto grid = line("rows", ceil_div(count, kernel.plan().rows_per_block), 1);
  return grid ? kernel.launch(*grid, params, stream) : fail(Error(grid.error()));
}

namespace {

Result<> check_envelopes(const void* pool, Bytes page_bytes) {
  if (reinterpret_cast<std::uintptr_t>(pool) % kVectorBytes != 0) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("argument pool: the pointer is {}; legal is a multiple of {} bytes", pool, kVectorBytes));
  }
  constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();
  if (page_bytes.count == 0 || page_bytes.count % kVectorBytes != 0 || page_bytes.count > kLargest) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("argument page_bytes is {}; legal is a positive multiple of {}", page_bytes.count, kVectorBytes));
  }
  return {};
}

}  // namespace

Result<> PagedKv::move_pages(void* pool, Bytes page_bytes, const TensorView& moves, StreamHandle stream) const {
  constexpr std::array<std::int64_t, 2> kPairs{-1, 2};
  if (auto r = check_tensor(moves, integers("moves", DType::i64, kPairs)); !r) return r;
  if (auto r = check_envelopes(pool, page_bytes); !r) return r;
  const std::int64_t count = moves.shape[0];
  if (count == 0) return {};
  SteppingKernel& kernel = *state_->move_pages;
  kw_paged::MovePagesParams params{};
  params.pool = static_cast<unsigned char*>(pool);
  params.moves = static_cast<const long long*>(moves.data);
  params.page_bytes = static_cast<long long>(page_bytes.count);
  params.count = count;
  params.parts = static_cast<int>(state_->parts(count, ceil_div(params.page_bytes, kernel.plan().threads * kVectorBytes)));
  const auto grid = line("pages", count, params.parts);
  return grid ? kernel.launch(*grid, params, stream) : fail(Error(grid.error()));
}

Result<> PagedKv::zero_pages(void* pool, Bytes page_bytes, const TensorView& pages, StreamHandle stream) const {
  constexpr std::array<std::int64_t, 1> kAny{-1};
  if (auto r = check_tensor(pages, integers("pages", DType::i64, kAny)); !r) return r;
  if (auto r = check_envelopes(pool, page_bytes); !r) return r;
  const std::int64_t count = pages.shape[0];
  if (count == 0) return {};
  SteppingKernel& kernel = *state_->zero_pages;
  kw_paged::ZeroPagesParams params{};
  params.pool = static_cast<unsigned char*>(pool);
  params.pages = static_cast<const long long*>(pages.data);
  params.page_bytes = static_cast<long long>(page_bytes.count);
  params.count = count;
  params.parts = static_cast<int>(state_->parts(count, ceil_div(params.page_bytes, kernel.plan().threads * kVectorBytes)));
  const auto grid = line("pages", count, params.parts);
  return grid ? kernel.launch(*grid, params, stream) : fail(Error(grid.error()));
}

const PagedKvOptions& PagedKv::options() const noexcept {
  return state_->options;
}

std::vector<PrepareReport> PagedKv::reports() const {
  std::vector<PrepareReport> all;
  for (const auto* kernel : {&state_->block_table, &state_->token_indices, &state_->translate, &state_->write_locations,
                             &state_->write_dense_rows, &state_->write_virtual_rows, &state_->move_pages, &state_->zero_pages}) {
    if (*kernel) all.push_back((*kernel)->kernel().report());
  }
  return all;
}

}  // namespace kernwright
