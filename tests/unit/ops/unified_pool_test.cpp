// The unified pool on the host interpreter. tests/gpu runs the same model on a CUDA device.
#include "kernwright/unified_pool.hpp"

#include <doctest/doctest.h>

#include "cases/unified_pool_model.hpp"
#include "fixtures/shared_store.hpp"
#include "paged_pool/page_mapping.hpp"

using namespace kernwright;
using namespace kernwright::cases;

namespace {

// An OS thread a CUDA thread makes a launch dear under ThreadSanitizer.
#if defined(__SANITIZE_THREAD__)
constexpr int kLaunchingPercent = 2;
#else
constexpr int kLaunchingPercent = 30;
#endif

UnifiedPoolOptions legal_options() {
  UnifiedPoolOptions options;
  options.device = DeviceId::host();
  options.size = Bytes{4000};
  options.page_size = 2;
  options.layers = 3;
  options.latent_width = 8;
  options.rope_width = 0;
  options.kv_virtual_pages = 60;
  options.state_page_bytes = Bytes{160};
  options.state_virtual_pages = 12;
  return options;
}

UnifiedPool make_pool(const UnifiedPoolOptions& options) {
  auto pool = UnifiedPool::create(tests::shared_store_runtime(), options);
  REQUIRE_MESSAGE(pool, (pool ? "" : pool.error().text()));
  return std::move(*pool);
}

}  // namespace

TEST_CASE("unified pool: 50,000 random operations, eager compaction, every live byte checked") {
  pool_keeps_every_byte(tests::shared_store_runtime(), DeviceId::host(), {Compaction::eager, 50'000, kLaunchingPercent, 1});
}
TEST_CASE("unified pool: 50,000 random operations, deferred compaction, every live byte checked") {
  pool_keeps_every_byte(tests::shared_store_runtime(), DeviceId::host(), {Compaction::deferred, 50'000, kLaunchingPercent, 2});
}

TEST_CASE("page mapping: survivors of the band that is given up go into the holes below it, both in ascending order") {
  PageMapping mapping(20, 20);
  REQUIRE(mapping.bind(9) == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(mapping.watermark() == 10);
  const std::vector<std::int64_t> gone{2, 8, 5, 4};
  REQUIRE(mapping.check_bound(gone));
  mapping.unbind(gone);
  CHECK(mapping.holes() == 4);
  // Live: 1 3 6 7 9; the new watermark is 6: 6, 7 and 9 lie in the band, 2, 4 and 5 are the holes below it.
  using Move = PageMapping::Move;
  CHECK(mapping.close_holes() == std::vector<Move>{{6, 2}, {7, 4}, {9, 5}});
  CHECK(mapping.watermark() == 6);
  CHECK(mapping.v2p()[6] == 2);
  CHECK(mapping.v2p()[7] == 4);
  CHECK(mapping.v2p()[9] == 5);
  CHECK(mapping.v2p()[8] == -1);
  CHECK(mapping.p2v()[9] == -1);
  CHECK(mapping.bind(2) == std::vector<std::int64_t>{2, 4});
  CHECK(mapping.v2p()[2] == 6);
}

TEST_CASE("unified pool: the two sides meet, and then neither grows") {
  UnifiedPoolOptions options = legal_options();
  UnifiedPool pool = make_pool(options);
  REQUIRE(pool.allocate(PoolSide::kv, 20, {}));
  // 4000 − 21 · 96 = 1984 bytes are left: 12 state pages of 160, the sink among them.
  REQUIRE(pool.allocate(PoolSide::state, 11, {}));
  const auto met = pool.allocate(PoolSide::kv, 1, {});
  REQUIRE_FALSE(met);
  CHECK(met.error().code == ErrorCode::out_of_memory);
  CHECK(pool.statistics(PoolSide::kv).free_pages == 0);
  const auto ids = pool.allocate(PoolSide::state, 1, {});
  REQUIRE_FALSE(ids);
  CHECK_MESSAGE(ids.error().message.find("virtual pages are free") != std::string::npos, ids.error().message);
}

TEST_CASE("unified pool: dense views of every layer, and the tail behind the last") {
  UnifiedPool pool = make_pool(legal_options());
  const auto first = pool.dense_view(0), last = pool.dense_view(2);
  REQUIRE(first);
  REQUIRE(last);
  CHECK(first->shape[0] == 40 * 3 * 2);  // (4000 − 160) / 96 pages
  CHECK(first->shape[1] == 8);
  CHECK(static_cast<std::byte*>(last->data) - static_cast<std::byte*>(first->data) == 2 * 2 * 8 * 2);
  CHECK_FALSE(pool.dense_view(3));
  CHECK_FALSE(pool.dense_view(-1));
  CHECK(pool.hooks().translates());
  CHECK(pool.hooks().multiplier == 3);
}

TEST_CASE("unified pool: options and calls that are wrong are named with what is legal") {
  const auto refused = [](auto change, const std::string& words) {
    UnifiedPoolOptions options = legal_options();
    change(options);
    const auto pool = UnifiedPool::create(tests::shared_store_runtime(), options);
    REQUIRE_FALSE(pool);
    CHECK(pool.error().code == ErrorCode::invalid_argument);
    CHECK_MESSAGE(pool.error().message.find(words) != std::string::npos, pool.error().message);
  };
  refused([](auto& o) { o.kv_virtual_pages = 1; }, "kv_virtual_pages");
  refused([](auto& o) { o.state_page_bytes = Bytes{24}; }, "state_page_bytes");
  refused([](auto& o) { o.state_virtual_pages = 0; }, "state_virtual_pages");
  refused([](auto& o) { o.size = Bytes{96}; }, "size");
  refused([](auto& o) { o.layers = 0; }, "multiplier");
  refused([](auto& o) { o.latent_width = 0; }, "latent_width");

  UnifiedPoolOptions options = legal_options();
  options.state_page_bytes = {};
  UnifiedPool pool = make_pool(options);
  const auto no_side = pool.allocate(PoolSide::state, 1, {});
  REQUIRE_FALSE(no_side);
  CHECK(no_side.error().message.find("state_page_bytes") != std::string::npos);
  CHECK_FALSE(pool.allocate(PoolSide::kv, -1, {}));
}

TEST_CASE("pool hooks: whether ids are translated is whether there is a table, whatever the multiplier is") {
  UnifiedPoolOptions options = legal_options();
  options.layers = 1;
  UnifiedPool pool = make_pool(options);
  const PoolHooks hooks = pool.hooks();
  CHECK(hooks.translates());
  CHECK(hooks.multiplier == 1);
  CHECK(hooks.page_size == 2);
  CHECK(hooks.v2p.shape[0] == options.kv_virtual_pages + 1);
  CHECK(pool.kernels().options().has_table);
  CHECK_FALSE(PoolHooks{{}, 2, 3}.translates());
  // With one layer too pages move, so that ids and rows part: the second of two pages is where the first one was.
  const auto pages = pool.allocate(PoolSide::kv, 2, {});
  REQUIRE(pages);
  const void* const first = pool.page_address(PoolSide::kv, pages->front());
  REQUIRE(pool.free(PoolSide::kv, std::span(*pages).first(1), {}));
  CHECK(pool.page_address(PoolSide::kv, pages->back()) == first);
}

TEST_CASE("pool readers: a reader that has not declared a pool's kind is refused with those that have") {
  PoolReaders readers = PoolReaders::with_defaults();
  CHECK(readers.check("anything", PoolKind::static_pool));
  CHECK(readers.check("kernwright/paged_mla_decode", PoolKind::unified_mla));
  CHECK(readers.check("triton", PoolKind::unified_without_mla));
  const auto refused = readers.check("flashinfer", PoolKind::unified_without_mla);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::unsupported);
  CHECK(refused.error().message.find("accepted are: triton") != std::string::npos);
  const auto stranger = readers.check("engine_attention", PoolKind::unified_mla);
  REQUIRE_FALSE(stranger);
  CHECK(stranger.error().message.find("trtllm_mla") != std::string::npos);
  readers.declare("engine_attention", PoolKind::unified_mla);
  CHECK(readers.check("engine_attention", PoolKind::unified_mla));
}
