// A unified pool, its block tables and decode over them, through the C interface, on the host interpreter.
#include <algorithm>
#include <cmath>

#include "c_api_fixture.hpp"

namespace kernwright::tests::c {
namespace {

constexpr std::int64_t kPageSize = 4, kWidth = 576, kV = 512, kHeads = 2;

Owned<kw_unified_pool> make_pool(const kw_runtime* runtime) {
  auto options = made<kw_unified_pool_options>();
  options.device = KW_HOST;
  options.page_size = kPageSize;
  options.pool_bytes = 16 * kPageSize * kWidth * 2;
  options.kv_virtual_pages = 16;
  options.deferred_compaction = 1;
  options.token_dtype = KW_I64;
  kw_unified_pool* pool = nullptr;
  REQUIRE_MESSAGE(kw_unified_pool_create(runtime, &options, &pool) == KW_OK, kw_last_error());
  return Owned<kw_unified_pool>(pool);
}

kw_unified_pool_statistics statistics_of(const kw_unified_pool* pool) {
  auto statistics = made<kw_unified_pool_statistics>();
  REQUIRE(kw_unified_pool_get_statistics(pool, KW_POOL_KV, &statistics) == KW_OK);
  return statistics;
}

/// Writes a request's rows through the pool's kernels, reads its block table, and attends to it: the mean of its rows.
void check_request(const kw_runtime* runtime, const kw_unified_pool* pool, const std::vector<std::int64_t>& pages, std::int64_t length,
                   bool write) {
  kw_paged_kv* made_kernels = nullptr;
  REQUIRE(kw_unified_pool_kernels(pool, &made_kernels) == KW_OK);
  const Owned<kw_paged_kv> kernels(made_kernels);
  auto view = made<kw_tensor>();
  auto v2p = made<kw_tensor>();
  REQUIRE_MESSAGE(kw_unified_pool_dense_view(pool, 0, &view) == KW_OK, kw_last_error());
  REQUIRE(kw_unified_pool_v2p(pool, KW_POOL_KV, &v2p) == KW_OK);
  CHECK(view.shape[1] == kWidth);

  std::vector<std::int64_t> tokens(static_cast<std::size_t>(length));
  std::vector<std::uint16_t> latent(tokens.size() * kV), rope(tokens.size() * (kWidth - kV));
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    tokens[t] = pages[t / kPageSize] * kPageSize + static_cast<std::int64_t>(t % kPageSize);
    for (std::size_t c = 0; c < kV; ++c) latent[t * kV + c] = bf16(static_cast<float>((t * 3 + c) % 8));
  }
  kw_tensor locations = dense(tokens, KW_I64, {length});
  if (write) {
    const kw_tensor latents = dense(latent, KW_BF16, {length, kV}), ropes = dense(rope, KW_BF16, {length, kWidth - kV});
    REQUIRE_MESSAGE(kw_paged_kv_write_rows(kernels.get(), &latents, &ropes, &locations, 0, &view, &v2p, nullptr) == KW_OK, kw_last_error());
  }
  std::vector<std::int64_t> requests{0}, lengths{length};
  std::vector<std::int32_t> table(pages.size(), -5);
  const kw_tensor req_to_token = dense(tokens, KW_I64, {1, length}), slots = dense(requests, KW_I64, {1}),
                  counts = dense(lengths, KW_I64, {1}), block_table = dense(table, KW_I32, {1, static_cast<std::int64_t>(table.size())});
  auto batch = made<kw_paged_kv_batch>();
  batch.req_to_token = &req_to_token;
  batch.requests = &slots;
  batch.lengths = &counts;
  batch.v2p = &v2p;
  REQUIRE_MESSAGE(kw_paged_kv_block_table(kernels.get(), &batch, &block_table, nullptr) == KW_OK, kw_last_error());
  for (std::size_t p = 0; p < pages.size(); ++p) {
    void* address = nullptr;
    REQUIRE(kw_unified_pool_page_address(pool, KW_POOL_KV, pages[p], &address) == KW_OK);
    CHECK(address == static_cast<std::uint16_t*>(view.data) + table[p] * kPageSize * kWidth);
  }

  auto options = made<kw_paged_mla_decode_options>();
  options.device = KW_HOST;
  options.heads = kHeads;
  options.page_size = kPageSize;
  options.unified_pool = 1;
  options.shares = 1;
  kw_paged_mla_decode* made_op = nullptr;
  REQUIRE_MESSAGE(kw_paged_mla_decode_create(runtime, &options, &made_op) == KW_OK, kw_last_error());
  const Owned<kw_paged_mla_decode> op(made_op);
  std::uint64_t bytes = 1;
  CHECK(kw_paged_mla_decode_workspace_bytes(op.get(), &bytes) == KW_OK);
  CHECK(bytes == 0);
  std::vector<std::uint16_t> q(kHeads * kWidth), out(kHeads * kV, 0x7fc0);
  std::vector<float> lse(kHeads);
  const kw_tensor q_tensor = dense(q, KW_BF16, {1, 1, kHeads, kWidth}), out_tensor = dense(out, KW_BF16, {1, 1, kHeads, kV}),
                  lse_tensor = dense(lse, KW_F32, {1, 1, kHeads});
  auto arguments = made<kw_paged_mla_decode_arguments>();
  arguments.q = &q_tensor;
  arguments.kv = &view;
  arguments.block_table = &block_table;
  arguments.seq_lens = &counts;
  arguments.out = &out_tensor;
  arguments.lse = &lse_tensor;
  arguments.sm_scale = 0.5F;
  REQUIRE_MESSAGE(kw_paged_mla_decode_run(op.get(), &arguments, nullptr) == KW_OK, kw_last_error());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    float sum = 0;
    for (std::size_t t = 0; t < tokens.size(); ++t) sum += from_bf16(latent[t * kV + i % kV]);
    const float mean = sum / static_cast<float>(length);
    wrong += std::abs(from_bf16(out[i]) - mean) <= mean / 256 ? 0 : 1;
  }
  CHECK(wrong == 0);
  CHECK(lse[0] == doctest::Approx(std::log(static_cast<double>(length))));
}

TEST_CASE("C unified pool: pages move, and block table and decode follow") {
  const auto runtime = shared_runtime();
  const auto pool = make_pool(runtime.get());
  std::vector<std::int64_t> first(3), second(2);
  REQUIRE_MESSAGE(kw_unified_pool_allocate(pool.get(), KW_POOL_KV, 3, first.data(), nullptr) == KW_OK, kw_last_error());
  REQUIRE(kw_unified_pool_allocate(pool.get(), KW_POOL_KV, 2, second.data(), nullptr) == KW_OK);
  CHECK(statistics_of(pool.get()).used == 5);
  check_request(runtime.get(), pool.get(), second, 7, true);

  REQUIRE(kw_unified_pool_free(pool.get(), KW_POOL_KV, first.data(), 3, nullptr) == KW_OK);
  CHECK(statistics_of(pool.get()).holes == 3);
  std::int64_t moved = 0;
  REQUIRE(kw_unified_pool_compact(pool.get(), KW_POOL_KV, &moved, nullptr) == KW_OK);
  CHECK(moved == 2);
  CHECK(statistics_of(pool.get()).holes == 0);
  REQUIRE(kw_unified_pool_wait(pool.get(), nullptr) == KW_OK);
  check_request(runtime.get(), pool.get(), second, 7, false);  // what was written, read where it is now

  CHECK(kw_unified_pool_free(pool.get(), KW_POOL_KV, first.data(), 1, nullptr) == KW_INVALID_ARGUMENT);
  CHECK(kw_unified_pool_allocate(pool.get(), KW_POOL_KV, 99, first.data(), nullptr) == KW_OUT_OF_MEMORY);
  CHECK(kw_unified_pool_allocate(pool.get(), 7, 1, first.data(), nullptr) == KW_INVALID_ARGUMENT);
  CHECK(says("side is 7"));
}

TEST_CASE("C paged KV: ids of a static pool") {
  const auto runtime = shared_runtime();
  auto options = made<kw_paged_kv_options>();
  options.device = KW_HOST;
  options.page_size = kPageSize;
  options.pages = 8;
  kw_paged_kv* made_op = nullptr;
  REQUIRE_MESSAGE(kw_paged_kv_create(runtime.get(), &options, &made_op) == KW_OK, kw_last_error());
  const Owned<kw_paged_kv> op(made_op);
  std::vector<std::int32_t> in{5, 0, 31, 7}, out(4, -1), used{3};
  const kw_tensor from = dense(in, KW_I32, {4}), to = dense(out, KW_I32, {4}), count = dense(used, KW_I32, {1});
  REQUIRE_MESSAGE(kw_paged_kv_translate(op.get(), &from, &to, &count, nullptr, nullptr) == KW_OK, kw_last_error());
  CHECK(out == std::vector<std::int32_t>{5, 0, 31, -1});

  std::vector<std::int64_t> locations{3, 9}, padded(4, -1);
  const kw_tensor places = dense(locations, KW_I64, {2}), capacity = dense(padded, KW_I64, {4});
  REQUIRE_MESSAGE(kw_paged_kv_write_locations(op.get(), &places, &capacity, nullptr, nullptr) == KW_OK, kw_last_error());
  CHECK(padded == std::vector<std::int64_t>{3, 9, 0, 0});

  std::vector<std::int64_t> pages(64), moves{1, 2}, zeroed{3};
  for (std::size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<std::int64_t>(i) + 1;
  std::vector<std::int64_t> expected = pages;
  std::copy_n(pages.begin() + 8, 8, expected.begin() + 16);
  std::fill_n(expected.begin() + 24, 8, 0);
  const kw_tensor pairs = dense(moves, KW_I64, {1, 2}), list = dense(zeroed, KW_I64, {1});
  REQUIRE_MESSAGE(kw_paged_kv_move_pages(op.get(), pages.data(), 64, &pairs, nullptr) == KW_OK, kw_last_error());
  REQUIRE_MESSAGE(kw_paged_kv_zero_pages(op.get(), pages.data(), 64, &list, nullptr) == KW_OK, kw_last_error());
  CHECK(pages == expected);
}

}  // namespace
}  // namespace kernwright::tests::c
