#include "cases/paged_kv_case.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include "cases/device_integers.hpp"

namespace kernwright::cases {
namespace {

using support::PagedIds;
using support::reference_block_table;
using support::reference_token_indices;
using support::reference_translate;
using support::reference_write_locations;
using support::reference_write_rows;

constexpr std::int64_t kVirtualPages = 37;
constexpr std::int64_t kPhysicalPages = 50;
constexpr std::int64_t kPattern = 0x5A5A5A5A;

PagedKv make_op(const Runtime& runtime, DeviceId device, const PagedKvCase& c) {
  PagedKvOptions options;
  options.device = device;
  options.page_size = c.page_size;
  options.multiplier = c.multiplier;
  options.has_table = c.unified;
  options.pages = kPhysicalPages;
  options.token_dtype = c.token_dtype;
  options.request_dtype = c.request_dtype;
  options.index_dtype = c.index_dtype;
  options.latent_width = 64;
  options.rope_width = 16;
  auto op = PagedKv::create(runtime, options);
  REQUIRE_MESSAGE(op, (op ? "" : op.error().text()));
  return *op;
}

PagedIds random_ids(const PagedKvCase& c, std::mt19937_64& random) {
  PagedIds ids;
  ids.page_size = c.page_size;
  ids.multiplier = c.multiplier;
  if (!c.unified) return ids;
  std::vector<std::int64_t> places(static_cast<std::size_t>(kPhysicalPages - 1));
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<std::int64_t>(i) + 1;
  std::ranges::shuffle(places, random);
  ids.v2p.push_back(0);
  for (std::int64_t v = 1; v < kVirtualPages; ++v) {
    ids.v2p.push_back(random() % 5 == 0 ? -1 : places[static_cast<std::size_t>(v)]);
  }
  ids.v2p.push_back(-1);
  return ids;
}

/// Mostly ids of pages, some that are negative, past the last page, or far out.
std::int64_t random_token(const PagedKvCase& c, std::mt19937_64& random) {
  const std::int64_t tokens = kVirtualPages * c.page_size;
  switch (random() % 12) {
    case 0: return -1 - static_cast<std::int64_t>(random() % 1000);
    case 1: return tokens + static_cast<std::int64_t>(random() % 1000);
    case 2: return c.token_dtype == DType::i64 && c.unified ? std::int64_t{1} << 40 : tokens - 1;
    case 3: return std::numeric_limits<std::int32_t>::min();
    default: return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(tokens));
  }
}

/// A batch with every length that can go wrong.
struct HostBatch : support::PagedBatch {
  std::int64_t slots = 0, width = 0;
};

HostBatch random_batch(const PagedKvCase& c, std::mt19937_64& random) {
  HostBatch batch;
  const std::int64_t ps = c.page_size;
  batch.lengths = {0, 1, ps - 1, ps, ps + 1, 7 * ps + 3, 20 * ps, -1, 0, std::numeric_limits<std::int32_t>::min(), 5 * ps - 1};
  batch.slots = static_cast<std::int64_t>(batch.lengths.size()) + 3;
  batch.width = 24 * ps + 5;
  batch.stride = batch.width + 2;
  for (std::int64_t i = 0; i < batch.slots * batch.stride; ++i) batch.req_to_token.push_back(random_token(c, random));
  for (std::size_t lane = 0; lane < batch.lengths.size(); ++lane) {
    batch.requests.push_back(static_cast<std::int64_t>((lane * 5 + 2) % static_cast<std::size_t>(batch.slots)));
    batch.starts.push_back(static_cast<std::int64_t>(random() % 4) * ps);
  }
  return batch;
}

struct DeviceBatch {
  DeviceIntegers req_to_token, requests, lengths, starts, v2p;
  PagedKvBatch view;

  DeviceBatch(const Runtime& runtime, DeviceId device, const PagedKvCase& c, const HostBatch& host, const PagedIds& ids)
      : req_to_token(runtime, device, c.token_dtype, host.req_to_token),
        requests(runtime, device, c.request_dtype, host.requests),
        lengths(runtime, device, c.request_dtype, host.lengths),
        starts(runtime, device, c.request_dtype, host.starts),
        v2p(runtime, device, DType::i64, ids.v2p) {
    view.req_to_token = req_to_token.table(host.slots, host.width, host.stride);
    view.requests = requests.line();
    view.lengths = lengths.line();
    view.starts = starts.line();
    if (c.unified) view.v2p = v2p.line();
  }
};

/// One call on a stream of its own, waited for.
template <class Call>
void run(const Runtime& runtime, DeviceId device, const Call& call) {
  auto stream = runtime.create_stream(device);
  REQUIRE(stream);
  const Result<> done = call(stream->handle());
  REQUIRE_MESSAGE(done, (done ? "" : done.error().text()));
  REQUIRE(stream->synchronize());
}

std::vector<std::int64_t> pattern(std::int64_t count) {
  return std::vector<std::int64_t>(static_cast<std::size_t>(count), kPattern);
}

/// The first difference, so that a failure says where; −1: none.
std::int64_t first_difference(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  if (a.size() != b.size()) return 0;
  const auto [left, right] = std::ranges::mismatch(a, b);
  return left == a.end() ? -1 : left - a.begin();
}

}  // namespace

std::string PagedKvCase::text() const {
  return "page_size " + std::to_string(page_size) + ", multiplier " + std::to_string(multiplier) + (unified ? ", unified" : ", static") +
         ", tokens " + std::string(to_string(token_dtype)) + ", requests " + std::string(to_string(request_dtype)) + ", indices " +
         std::string(to_string(index_dtype));
}

std::vector<PagedKvCase> paged_kv_cases() {
  constexpr DType i32 = DType::i32, i64 = DType::i64;
  std::vector<PagedKvCase> all;
  // Each page size with each multiplier, the types in turn; then static pools.
  int turn = 0;
  for (const int page_size : {1, 16, 64, 128}) {
    for (const int multiplier : {1, 3, 24, 61}) {
      const int bits = turn++;
      all.push_back({page_size, multiplier, true, bits % 2 == 0 ? i32 : i64, bits / 4 % 2 == 0 ? i64 : i32, bits / 2 % 2 == 0 ? i64 : i32});
    }
    all.push_back({page_size, 1, false, i32, i64, i32});
  }
  return all;
}

namespace {

void check_block_table(const Runtime& runtime, DeviceId device, const PagedKvCase& c, const HostBatch& host, const PagedIds& ids,
                       std::int64_t width) {
  const PagedKv op = make_op(runtime, device, c);
  const DeviceBatch batch(runtime, device, c, host, ids);
  const auto lanes = static_cast<std::int64_t>(host.lengths.size());
  const std::int64_t stride = width + 2;
  std::vector<std::int64_t> want = pattern(lanes * stride);
  const DeviceIntegers out(runtime, device, DType::i32, want);
  reference_block_table(ids, host, stride, want);
  run(runtime, device, [&](StreamHandle stream) { return op.block_table(batch.view, out.table(lanes, width, stride), stream); });
  CHECK(first_difference(out.values(), want) == -1);
}

}  // namespace

void block_tables_are_right(const Runtime& runtime, DeviceId device, const PagedKvCase& c) {
  std::mt19937_64 random(static_cast<std::uint64_t>(c.page_size * 1000 + c.multiplier));
  const PagedIds ids = random_ids(c, random);
  check_block_table(runtime, device, c, random_batch(c, random), ids, 25);
}

void long_block_tables_are_right(const Runtime& runtime, DeviceId device, std::int64_t pages) {
  std::mt19937_64 random(static_cast<std::uint64_t>(pages));
  for (const bool unified : {false, true}) {
    CAPTURE(unified);
    PagedKvCase c;
    c.page_size = 1;
    c.multiplier = unified ? 3 : 1;
    c.unified = unified;
    const PagedIds ids = random_ids(c, random);
    HostBatch host;
    host.lengths = {pages, 1, pages - 7};
    host.requests = {1, 2, 0};
    host.starts = {0, 3, 7};
    host.slots = 3;
    host.width = host.stride = pages;
    for (std::int64_t i = 0; i < host.slots * host.stride; ++i) host.req_to_token.push_back(random_token(c, random));
    check_block_table(runtime, device, c, host, ids, pages);
  }
}

void block_tables_agree_with_token_indices(const Runtime& runtime, DeviceId device, const PagedKvCase& c) {
  std::mt19937_64 random(static_cast<std::uint64_t>(c.page_size * 31 + c.multiplier));
  const PagedKv op = make_op(runtime, device, c);
  const PagedIds ids = random_ids(c, random);
  HostBatch host = random_batch(c, random);
  // A request's pages as an engine hands them out: a page's tokens follow each other from its first.
  for (std::size_t i = 0; i < host.req_to_token.size(); ++i) {
    const auto in_row = static_cast<std::int64_t>(i) % host.stride;
    const auto page = static_cast<std::int64_t>(i) / c.page_size * 7 % kVirtualPages;
    host.req_to_token[i] = page * c.page_size + in_row % c.page_size;
  }
  const DeviceBatch batch(runtime, device, c, host, ids);
  const auto lanes = static_cast<std::int64_t>(host.lengths.size());
  const std::int64_t width = 25;
  const DeviceIntegers table(runtime, device, DType::i32, pattern(lanes * width));
  const std::vector<std::int64_t> offsets = host.offsets();
  const DeviceIntegers bounds(runtime, device, DType::i32, offsets);
  const DeviceIntegers indices(runtime, device, c.index_dtype, pattern(offsets.back() + 1));
  run(runtime, device, [&](StreamHandle stream) { return op.block_table(batch.view, table.table(lanes, width, width), stream); });
  run(runtime, device, [&](StreamHandle stream) { return op.token_indices(batch.view, bounds.line(), indices.line(), stream); });
  const auto pages = table.values();
  const auto dense = indices.values();
  int wrong = 0;
  for (std::size_t lane = 0; lane < host.lengths.size(); ++lane) {
    for (std::int64_t first = 0; first < host.lengths[lane]; first += c.page_size) {
      // What is not mapped reads the sink, whose page is 0 whatever the token's offset.
      const std::int64_t page = pages[lane * static_cast<std::size_t>(width) + static_cast<std::size_t>(first / c.page_size)];
      const std::int64_t token = host.token(static_cast<std::int64_t>(lane), first);
      const std::int64_t from_start =
          dense[static_cast<std::size_t>(offsets[lane] + first)] - (ids.dense(token) > 0 ? token % c.page_size : 0);
      wrong += page * c.page_size != from_start ? 1 : 0;
    }
  }
  CHECK(wrong == 0);
}

void token_indices_are_right(const Runtime& runtime, DeviceId device, const PagedKvCase& c) {
  std::mt19937_64 random(static_cast<std::uint64_t>(c.page_size * 1001 + c.multiplier));
  const PagedKv op = make_op(runtime, device, c);
  const PagedIds ids = random_ids(c, random);
  const HostBatch host = random_batch(c, random);
  const DeviceBatch batch(runtime, device, c, host, ids);
  const std::vector<std::int64_t> offsets = host.offsets();
  std::vector<std::int64_t> want = pattern(offsets.back() + 40);
  const DeviceIntegers bounds(runtime, device, DType::i32, offsets);
  const DeviceIntegers out(runtime, device, c.index_dtype, want);
  reference_token_indices(ids, host, want);
  run(runtime, device, [&](StreamHandle stream) { return op.token_indices(batch.view, bounds.line(), out.line(), stream); });
  CHECK(first_difference(out.values(), want) == -1);
}

void translation_in_place_is_right(const Runtime& runtime, DeviceId device, const PagedKvCase& c) {
  std::mt19937_64 random(static_cast<std::uint64_t>(c.page_size * 77 + c.multiplier));
  const PagedKv op = make_op(runtime, device, c);
  const PagedIds ids = random_ids(c, random);
  const DeviceIntegers v2p(runtime, device, DType::i64, ids.v2p);
  const TensorView table = c.unified ? v2p.line() : TensorView{};
  constexpr std::int64_t kCapacity = 3000;
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1777}, kCapacity, kCapacity + 5, std::int64_t{-4}}) {
    CAPTURE(count);
    std::vector<std::int64_t> want;
    for (std::int64_t i = 0; i < kCapacity; ++i) want.push_back(random_token({c.page_size, c.multiplier, c.unified}, random));
    const DeviceIntegers lying(runtime, device, c.index_dtype, want);
    const DeviceIntegers number(runtime, device, DType::i32, {count});
    reference_translate(ids, count, want);
    run(runtime, device, [&](StreamHandle stream) { return op.translate(lying.line(), lying.line(), number.line(), table, stream); });
    CHECK(first_difference(lying.values(), want) == -1);
    // Without a count, all of them: those done already go through once more.
    reference_translate(ids, kCapacity, want);
    run(runtime, device, [&](StreamHandle stream) { return op.translate(lying.line(), lying.line(), {}, table, stream); });
    CHECK(first_difference(lying.values(), want) == -1);
  }
}

void write_locations_are_right(const Runtime& runtime, DeviceId device, const PagedKvCase& c) {
  std::mt19937_64 random(static_cast<std::uint64_t>(c.page_size * 13 + c.multiplier));
  const PagedKv op = make_op(runtime, device, c);
  const PagedIds ids = random_ids(c, random);
  const DeviceIntegers v2p(runtime, device, DType::i64, ids.v2p);
  constexpr std::int64_t kCapacity = 700;
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, std::int64_t{257}, kCapacity}) {
    CAPTURE(count);
    std::vector<std::int64_t> tokens;
    for (std::int64_t i = 0; i < kCapacity; ++i) tokens.push_back(random_token(c, random));
    const DeviceIntegers in(runtime, device, DType::i64, tokens);
    const DeviceIntegers out(runtime, device, DType::i64, pattern(kCapacity));  // a stale tail
    const auto want = reference_write_locations(ids, std::span(tokens).first(static_cast<std::size_t>(count)), kCapacity);
    run(runtime, device,
        [&](StreamHandle stream) { return op.write_locations(in.line(count), out.line(), c.unified ? v2p.line() : TensorView{}, stream); });
    CHECK(first_difference(out.values(), want) == -1);
  }
}

void rows_land_where_they_should(const Runtime& runtime, DeviceId device, const PagedKvCase& c) {
  std::mt19937_64 random(static_cast<std::uint64_t>(c.page_size * 17 + c.multiplier));
  const PagedKv op = make_op(runtime, device, c);
  const PagedIds ids = random_ids(c, random);
  const DeviceIntegers v2p(runtime, device, DType::i64, ids.v2p);
  const TensorView table = c.unified ? v2p.line() : TensorView{};
  constexpr std::int64_t kLatent = 64, kRope = 16, kRow = kLatent + kRope;
  const std::int64_t pages = c.unified ? kPhysicalPages : kVirtualPages;
  const std::int64_t view_rows = pages * c.multiplier * c.page_size;
  const std::int64_t tail = (c.multiplier - 1) * std::int64_t{c.page_size};
  // Some of a layer's rows; a token at most once, since two writes to one row have no order.
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < 45; ++i) tokens.push_back(i * kVirtualPages * c.page_size / 45);
  std::ranges::sort(tokens);
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  std::ranges::shuffle(tokens, random);
  for (const std::int64_t stranger : {std::int64_t{-1}, std::int64_t{0}, kVirtualPages * c.page_size}) tokens.push_back(stranger);
  const auto count = static_cast<std::int64_t>(tokens.size());

  constexpr std::int64_t kLatentStride = 72, kRopeStride = 24;
  std::vector<std::uint16_t> latent(static_cast<std::size_t>(count * kLatentStride)), rope(static_cast<std::size_t>(count * kRopeStride));
  for (auto& value : latent) value = static_cast<std::uint16_t>(random());
  for (auto& value : rope) value = static_cast<std::uint16_t>(random());
  const auto upload = [&](const std::vector<std::uint16_t>& values) {
    auto buffer = runtime.allocate(device, Bytes{values.size() * 2});
    REQUIRE(buffer);
    REQUIRE(buffer->upload(std::as_bytes(std::span(values))));
    return std::move(*buffer);
  };
  const DeviceBuffer device_latent = upload(latent), device_rope = upload(rope);
  std::vector<std::uint16_t> start(static_cast<std::size_t>((view_rows + tail) * kRow));
  for (auto& value : start) value = static_cast<std::uint16_t>(random());
  std::vector<std::int64_t> dense_ids;
  std::ranges::transform(tokens, std::back_inserter(dense_ids), [&](std::int64_t token) { return ids.dense(token); });

  for (const bool dense : {false, true}) {
    for (const int layer : {0, c.multiplier - 1}) {
      CAPTURE(dense);
      CAPTURE(layer);
      const DeviceBuffer pool = upload(start);
      std::vector<std::uint16_t> want = start;
      const std::size_t base = static_cast<std::size_t>(layer * std::int64_t{c.page_size} * kRow);
      reference_write_rows({latent, rope, kLatent, kLatentStride, kRope, kRopeStride}, dense_ids, view_rows, std::span(want).subspan(base));
      const DeviceIntegers locations(runtime, device, DType::i64, dense ? dense_ids : tokens);
      TensorView latent_view = TensorView::contiguous(device_latent.data(), DType::bf16, {count, kLatent});
      latent_view.stride[0] = kLatentStride;
      TensorView rope_view = TensorView::contiguous(device_rope.data(), DType::bf16, {count, kRope});
      rope_view.stride[0] = kRopeStride;
      const TensorView view = TensorView::contiguous(static_cast<std::uint16_t*>(pool.data()) + base, DType::bf16, {view_rows, kRow});
      run(runtime, device,
          [&](StreamHandle stream) { return op.write_rows(latent_view, rope_view, locations.line(), dense, view, table, stream); });
      std::vector<std::uint16_t> got(want.size());
      REQUIRE(pool.download(std::as_writable_bytes(std::span(got))));
      CHECK(std::ranges::mismatch(got, want).in1 == got.end());
    }
  }
}

void pages_move_and_are_zeroed(const Runtime& runtime, DeviceId device) {
  std::mt19937_64 random(5);
  const PagedKv op = make_op(runtime, device, {});
  for (const std::uint64_t page_bytes : {std::uint64_t{16}, std::uint64_t{4096}, std::uint64_t{55'296}}) {
    CAPTURE(page_bytes);
    std::vector<std::uint8_t> want(static_cast<std::size_t>(page_bytes * kPhysicalPages));
    for (auto& value : want) value = static_cast<std::uint8_t>(random());
    auto pool = runtime.allocate(device, Bytes{want.size()});
    REQUIRE(pool);
    REQUIRE(pool->upload(std::as_bytes(std::span(want))));
    const DeviceIntegers moves(runtime, device, DType::i64, {40, 3, 41, 7, 49, 1, 20, 45});
    const std::vector<std::int64_t> zeroed{2, 48, 30};
    const DeviceIntegers pages(runtime, device, DType::i64, zeroed);
    const auto page = [&](std::int64_t number) { return want.begin() + number * static_cast<std::int64_t>(page_bytes); };
    for (const auto& [from, to] : {std::pair{40, 3}, {41, 7}, {49, 1}, {20, 45}}) {
      std::copy_n(page(from), page_bytes, page(to));
    }
    for (const std::int64_t number : zeroed) std::fill_n(page(number), page_bytes, std::uint8_t{0});
    run(runtime, device, [&](StreamHandle stream) { return op.move_pages(pool->data(), Bytes{page_bytes}, moves.table(4, 2, 2), stream); });
    run(runtime, device, [&](StreamHandle stream) { return op.zero_pages(pool->data(), Bytes{page_bytes}, pages.line(), stream); });
    std::vector<std::uint8_t> got(want.size());
    REQUIRE(pool->download(std::as_writable_bytes(std::span(got))));
    CHECK(std::ranges::mismatch(got, want).in1 == got.end());
  }
}

void a_null_table_changes_nothing(const Runtime& runtime, DeviceId device, int page_size) {
  PagedKvCase c{page_size, 1, true};
  std::mt19937_64 random(static_cast<std::uint64_t>(page_size));
  PagedKvCase without = c;
  without.unified = false;
  const PagedKv with_table = make_op(runtime, device, c), without_table = make_op(runtime, device, without);
  const HostBatch host = random_batch(without, random);
  const DeviceBatch batch(runtime, device, without, host, {});
  const auto lanes = static_cast<std::int64_t>(host.lengths.size());
  const std::int64_t width = 25;
  const std::vector<std::int64_t> offsets = host.offsets();
  const DeviceIntegers bounds(runtime, device, DType::i32, offsets);
  const DeviceIntegers tokens(runtime, device, DType::i64, {3, -1, 0, 900'000, page_size});
  std::vector<std::vector<std::int64_t>> results[2];
  for (const PagedKv* op : {&with_table, &without_table}) {
    auto& result = results[op == &with_table ? 0 : 1];
    const DeviceIntegers table(runtime, device, DType::i32, pattern(lanes * width)),
        indices(runtime, device, DType::i32, pattern(offsets.back())), places(runtime, device, DType::i64, pattern(9));
    run(runtime, device, [&](StreamHandle stream) { return op->block_table(batch.view, table.table(lanes, width, width), stream); });
    run(runtime, device, [&](StreamHandle stream) { return op->token_indices(batch.view, bounds.line(), indices.line(), stream); });
    result.push_back(table.values());
    result.push_back(indices.values());
    run(runtime, device, [&](StreamHandle stream) { return op->translate(indices.line(), indices.line(), {}, {}, stream); });
    run(runtime, device, [&](StreamHandle stream) { return op->write_locations(tokens.line(), places.line(), {}, stream); });
    result.push_back(indices.values());
    result.push_back(places.values());
  }
  CHECK(results[0] == results[1]);
}

}  // namespace kernwright::cases
