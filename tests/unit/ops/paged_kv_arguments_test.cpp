// What the paged KV op refuses, with what is legal.
#include <doctest/doctest.h>

#include <string>

#include "fixtures/shared_store.hpp"
#include "kernwright/paged_kv.hpp"

using namespace kernwright;

namespace {

PagedKvOptions legal_options() {
  PagedKvOptions options;
  options.device = DeviceId::host();
  options.page_size = 16;
  options.multiplier = 3;
  options.has_table = true;
  options.pages = 50;
  options.latent_width = 64;
  options.rope_width = 16;
  return options;
}

void refused(const PagedKvOptions& options, const std::string& option, const std::string& legal) {
  const auto op = PagedKv::create(tests::shared_store_runtime(), options);
  REQUIRE_FALSE(op);
  CHECK(op.error().code == ErrorCode::invalid_argument);
  CHECK_MESSAGE(op.error().message.find("option " + option) == 0, op.error().message);
  CHECK_MESSAGE(op.error().message.find(legal) != std::string::npos, op.error().message);
}

void refused(const Result<>& result, const std::string& argument, const std::string& legal) {
  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::invalid_argument);
  CHECK_MESSAGE(result.error().message.find("argument " + argument) == 0, result.error().message);
  CHECK_MESSAGE(result.error().message.find(legal) != std::string::npos, result.error().message);
}

}  // namespace

TEST_CASE("paged KV options: each wrong one is named with what is legal") {
  const auto with = [](auto change) {
    PagedKvOptions options = legal_options();
    change(options);
    return options;
  };
  refused(with([](auto& o) { o.page_size = 0; }), "page_size", "1 to 4096");
  refused(with([](auto& o) { o.multiplier = 1025; }), "multiplier", "1 to 1024");
  refused(with([](auto& o) { o.has_table = false; }), "multiplier", "static pool");
  refused(with([](auto& o) { o.pages = 0; }), "pages", "physical pages");
  refused(with([](auto& o) { o.token_dtype = DType::bf16; }), "token_dtype", "i32 or i64");
  refused(with([](auto& o) { o.request_dtype = DType::u8; }), "request_dtype", "i32 or i64");
  refused(with([](auto& o) { o.index_dtype = DType::f32; }), "index_dtype", "i32 or i64");
  refused(with([](auto& o) { o.dtype = DType::f32; }), "dtype", "bf16, f16 or u8");
  refused(with([](auto& o) { o.latent_width = 60; }), "latent_width", "multiple of 8");
  refused(with([](auto& o) { o.rope_width = -8; }), "rope_width", "from 0");
  // 2^31 dense ids: the last pool that 32 bits hold, the first that they do not.
  const auto pages_of = [&](std::int64_t pages, int multiplier, int page_size) {
    return with([&](auto& o) {
      o.pages = pages;
      o.multiplier = multiplier;
      o.page_size = page_size;
    });
  };
  CHECK(PagedKv::create(tests::shared_store_runtime(), pages_of((std::int64_t{1} << 31) / 48 - 1, 3, 16)).has_value());
  refused(pages_of((std::int64_t{1} << 31) / 48 + 1, 3, 16), "index_dtype", "i64");
  refused(pages_of((std::int64_t{1} << 31) / 3 + 1, 3, 1), "pages", "block table");
}

TEST_CASE("paged KV arguments: each wrong one is named with what is legal") {
  const auto op = PagedKv::create(tests::shared_store_runtime(), legal_options());
  REQUIRE(op);
  std::vector<std::int64_t> longs(100);
  std::vector<std::int32_t> words(100);
  alignas(16) static std::array<std::byte, 4096> bytes{};
  const auto i64s = [&](std::initializer_list<std::int64_t> shape) { return TensorView::contiguous(longs.data(), DType::i64, shape); };
  const auto i32s = [&](std::initializer_list<std::int64_t> shape) { return TensorView::contiguous(words.data(), DType::i32, shape); };
  const PagedKvBatch batch{i32s({4, 10}), i64s({2}), i64s({2}), {}, i64s({6})};

  PagedKvBatch wrong = batch;
  wrong.lengths = i64s({3});
  refused(op->block_table(wrong, i32s({2, 5}), {}), "lengths", "[2]");
  wrong = batch;
  wrong.requests = i32s({2});
  refused(op->block_table(wrong, i32s({2, 5}), {}), "requests", "i64");
  wrong = batch;
  wrong.v2p = i64s({0});
  refused(op->block_table(wrong, i32s({2, 5}), {}), "v2p", "tombstone");
  refused(op->block_table(batch, i32s({3, 5}), {}), "out", "[2, any]");
  refused(op->block_table(batch, i64s({2, 5}), {}), "out", "i32");
  refused(op->token_indices(batch, i32s({2}), i32s({9}), {}), "offsets", "[3]");
  refused(op->translate(i32s({9}), i32s({8}), {}, {}, {}), "out", "[9]");
  refused(op->translate(i64s({9}), i32s({9}), {}, {}, {}), "in", "i32");
  refused(op->translate(i32s({9}), i32s({9}), i32s({2}), {}, {}), "count", "[1]");
  refused(op->write_locations(i64s({9}), i64s({8}), {}, {}), "in", "capacity");
  const auto rows = [&](std::int64_t count, std::int64_t width) {
    return TensorView::contiguous(bytes.data(), DType::bf16, {count, width});
  };
  refused(op->write_rows(rows(2, 32), rows(2, 16), i64s({2}), true, rows(9, 80), {}, {}), "latent", "[any, 64]");
  refused(op->write_rows(rows(2, 64), {}, i64s({2}), true, rows(9, 80), {}, {}), "rope", "[2, 16]");
  refused(op->write_rows(rows(2, 64), rows(2, 16), i64s({3}), true, rows(9, 80), {}, {}), "locations", "[2]");
  refused(op->write_rows(rows(2, 64), rows(2, 16), i64s({2}), true, rows(9, 64), {}, {}), "view", "80");
  refused(op->move_pages(bytes.data(), Bytes{24}, i64s({2, 2}), {}), "page_bytes", "multiple of 16");
  refused(op->move_pages(bytes.data() + 8, Bytes{32}, i64s({2, 2}), {}), "pool", "multiple of 16");
  refused(op->move_pages(bytes.data(), Bytes{32}, i64s({2, 3}), {}), "moves", "[any, 2]");
  refused(op->zero_pages(bytes.data(), Bytes{0}, i64s({2}), {}), "page_bytes", "positive");

  PagedKvOptions still = legal_options();
  still.has_table = false;
  still.multiplier = 1;
  const auto without = PagedKv::create(tests::shared_store_runtime(), still);
  REQUIRE(without);
  refused(without->block_table(batch, i32s({2, 5}), {}), "v2p", "has_table");
  // Nothing to do is no launch and no error.
  CHECK(op->translate(i32s({0}), i32s({0}), {}, {}, {}).has_value());
  CHECK(op->write_rows(rows(0, 64), rows(0, 16), i64s({0}), true, rows(9, 80), {}, {}).has_value());
}
