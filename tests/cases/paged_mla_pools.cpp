// The pools that paged MLA decode is tried on.
#include <algorithm>
#include <random>

#include "backend/backend.hpp"
#include "cases/paged_mla_case.hpp"
#include "prepare/runtime_state.hpp"

namespace kernwright::cases {
namespace {

using support::Bf16;

constexpr Bf16 kQuietNan = 0x7fff;
constexpr std::int64_t kLatent = 512;

std::int64_t pages_of(const PagedMlaCase& c, std::int64_t request) {
  return (std::max<std::int64_t>(c.lengths[static_cast<std::size_t>(request)], 0) + c.page_size - 1) / c.page_size;
}

/// Cells that nobody may follow, among them ids of pages that are there.
std::int64_t garbage(std::int64_t cell) {
  constexpr std::int64_t kValues[]{-1, 0x7fffffff, 0, 1, -0x7fffffff};
  return kValues[cell % 5];
}

/// The widest request's pages and two cells more.
std::int64_t table_width(const PagedMlaCase& c) {
  std::int64_t widest = 0;
  for (std::int64_t b = 0; b < c.batch(); ++b) widest = std::max(widest, pages_of(c, b));
  return widest + 2;
}

std::vector<std::int64_t> garbage_table(const PagedMlaCase& c) {
  std::vector<std::int64_t> table;
  for (std::int64_t cell = 0; cell < c.batch() * table_width(c); ++cell) table.push_back(garbage(cell));
  return table;
}

class StaticRows final : public PagedRows {
 public:
  StaticRows(const Runtime& runtime, DeviceId device, const PagedMlaCase& c, const PagedMlaInputs& inputs)
      : width_(table_width(c)), batch_(c.batch()), d_qk_(c.d_qk) {
    std::vector<std::int64_t> free_pages(1);  // page 0 belongs to nobody here
    std::int64_t needed = 0;
    for (std::int64_t b = 0; b < c.batch(); ++b) needed += pages_of(c, b);
    free_pages.resize(static_cast<std::size_t>(needed + 3));
    for (std::size_t i = 0; i < free_pages.size(); ++i) free_pages[i] = static_cast<std::int64_t>(i) + 1;
    std::mt19937_64 random(c.seed);
    std::ranges::shuffle(free_pages, random);
    kv_rows_ = (needed + 4) * c.page_size;
    std::vector<Bf16> rows(static_cast<std::size_t>(kv_rows_ * c.d_qk), kQuietNan);
    std::vector<std::int64_t> table = garbage_table(c);
    std::size_t taken = 0;
    for (std::int64_t b = 0; b < c.batch(); ++b) {
      for (std::int64_t p = 0; p < pages_of(c, b); ++p) {
        const std::int64_t page = free_pages[taken++];
        table[static_cast<std::size_t>(b * width_ + p)] = page;
        const std::int64_t here = std::min<std::int64_t>(c.page_size, c.lengths[static_cast<std::size_t>(b)] - p * c.page_size);
        std::copy_n(inputs.rows.begin() + (inputs.first_row[static_cast<std::size_t>(b)] + p * c.page_size) * c.d_qk, here * c.d_qk,
                    rows.begin() + page * c.page_size * c.d_qk);
      }
    }
    auto buffer = runtime.allocate(device, Bytes{rows.size() * 2});
    REQUIRE(buffer);
    rows_ = std::move(*buffer);
    REQUIRE(rows_.upload(std::as_bytes(std::span(rows))));
    table_ = std::make_unique<DeviceIntegers>(runtime, device, DType::i32, table);
  }
  [[nodiscard]] TensorView kv() const override { return TensorView::contiguous(rows_.data(), DType::bf16, {kv_rows_, d_qk_}); }
  [[nodiscard]] TensorView block_table() const override { return table_->table(batch_, width_, width_); }

 private:
  std::int64_t width_, batch_, d_qk_, kv_rows_ = 0;
  DeviceBuffer rows_;
  std::unique_ptr<DeviceIntegers> table_;
};

}  // namespace

std::unique_ptr<PagedRows> make_static_rows(const Runtime& runtime, DeviceId device, const PagedMlaCase& c, const PagedMlaInputs& inputs) {
  return std::make_unique<StaticRows>(runtime, device, c, inputs);
}

UnifiedRows::UnifiedRows(const Runtime& runtime, DeviceId device, const PagedMlaCase& c, const PagedMlaInputs& inputs)
    : runtime_(runtime), device_(device), c_(c), width_(table_width(c)) {
  std::int64_t needed = 0;
  for (std::int64_t b = 0; b < c.batch(); ++b) needed += pages_of(c, b);
  UnifiedPoolOptions options;
  options.device = device;
  options.page_size = c.page_size;
  options.layers = c.layers;
  options.rope_width = c.d_qk - static_cast<int>(kLatent);
  options.kv_virtual_pages = 2 * needed + 2;
  options.compaction = Compaction::deferred;
  options.zero_pages = false;  // what is in a page that is handed out stays there
  const std::int64_t layer_elements = std::int64_t{c.page_size} * c.d_qk;
  options.size = Bytes{static_cast<std::uint64_t>((2 * needed + 2) * c.layers * layer_elements * 2)};
  auto pool = UnifiedPool::create(runtime, options);
  REQUIRE_MESSAGE(pool, (pool ? "" : pool.error().text()));
  pool_.emplace(std::move(*pool));
  auto stream = runtime.create_stream(device);
  REQUIRE(stream);
  stream_ = std::move(*stream);

  const TensorView first = *pool_->dense_view(0);
  const std::vector<Bf16> nan(static_cast<std::size_t>(first.shape[0] * c.d_qk + (c.layers - 1) * layer_elements), kQuietNan);
  REQUIRE(pool_->wait(stream_.handle()));
  REQUIRE(stream_.synchronize());
  REQUIRE(runtime.state().backend(device.backend)->copy_to_device(device, first.data, std::as_bytes(std::span(nan))));

  // A page for somebody else in front of each of a request's.
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(c.batch() * width_ * c.page_size), 0), requests;
  pages_.resize(c.lengths.size());
  for (std::int64_t b = c.batch() - 1; b >= 0; --b) {
    for (std::int64_t p = 0; p < pages_of(c, b); ++p) {
      const auto two = pool_->allocate(PoolSide::kv, 2, stream_.handle());
      REQUIRE_MESSAGE(two, (two ? "" : two.error().text()));
      others_.push_back((*two)[0]);
      pages_[static_cast<std::size_t>(b)].push_back((*two)[1]);
    }
  }
  std::vector<std::int64_t> locations;
  for (std::int64_t b = 0; b < c.batch(); ++b) {
    requests.push_back(b);
    for (std::int64_t t = 0; t < c.lengths[static_cast<std::size_t>(b)]; ++t) {
      tokens[static_cast<std::size_t>(b * width_ * c.page_size + t)] = virtual_id(b, t);
      locations.push_back(virtual_id(b, t));
    }
  }
  tokens_ = std::make_unique<DeviceIntegers>(runtime, device, DType::i32, tokens);
  requests_ = std::make_unique<DeviceIntegers>(runtime, device, DType::i64, requests);
  lengths_ = std::make_unique<DeviceIntegers>(runtime, device, DType::i64, c.lengths);
  table_ = std::make_unique<DeviceIntegers>(runtime, device, DType::i32, garbage_table(c));

  auto staged = runtime.allocate(device, Bytes{std::max<std::size_t>(inputs.rows.size() * 2, 16)});
  REQUIRE(staged);
  REQUIRE(staged->upload(std::as_bytes(std::span(inputs.rows))));
  const DeviceIntegers places(runtime, device, DType::i64, locations);
  const auto count = static_cast<std::int64_t>(locations.size());
  TensorView latent = TensorView::contiguous(staged->data(), DType::bf16, {count, kLatent});
  TensorView rope = TensorView::contiguous(static_cast<Bf16*>(staged->data()) + kLatent, DType::bf16, {count, c.d_qk - kLatent});
  latent.stride[0] = rope.stride[0] = c.d_qk;
  if (c.d_qk == kLatent) rope = {};
  const auto written = pool_->kernels().write_rows(latent, rope, places.line(), false, kv(), pool_->hooks().v2p, stream_.handle());
  REQUIRE_MESSAGE(written, (written ? "" : written.error().text()));
  REQUIRE(stream_.synchronize());
  write_block_table();
}

std::int64_t UnifiedRows::virtual_id(std::int64_t request, std::int64_t token) const {
  return pages_[static_cast<std::size_t>(request)][static_cast<std::size_t>(token / c_.page_size)] * c_.page_size + token % c_.page_size;
}

TensorView UnifiedRows::kv() const {
  return *pool_->dense_view(c_.layers - 1);
}

void UnifiedRows::write_block_table() {
  const std::int64_t tokens = width_ * c_.page_size;
  const PagedKvBatch batch{tokens_->table(c_.batch(), tokens, tokens), requests_->line(), lengths_->line(), {}, pool_->hooks().v2p};
  const auto made = pool_->kernels().block_table(batch, block_table(), stream_.handle());
  REQUIRE_MESSAGE(made, (made ? "" : made.error().text()));
  REQUIRE(stream_.synchronize());
}

std::int64_t UnifiedRows::compact() {
  REQUIRE(pool_->free(PoolSide::kv, others_, stream_.handle()));
  others_.clear();
  const auto moved = pool_->compact(PoolSide::kv, stream_.handle());
  REQUIRE(moved);
  write_block_table();
  return *moved;
}

}  // namespace kernwright::cases
