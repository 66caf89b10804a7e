#include "cases/unified_pool_model.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>

#include "backend/backend.hpp"
#include "prepare/runtime_state.hpp"

namespace kernwright::cases {
namespace {

constexpr int kPageSize = 2, kLayers = 3, kWidth = 8;  // a kv page has 96 bytes
constexpr std::uint64_t kKvPage = kPageSize * kLayers * kWidth * 2;
constexpr std::uint64_t kStatePage = 160;
constexpr std::uint64_t kSize = 4000;  // 41 kv pages, or 25 state pages
constexpr std::int64_t kKvIds = 60, kStateIds = 12;

using Content = std::vector<std::uint8_t>;

template <class T>
std::vector<T> download(const void* from, std::size_t count, const UnifiedPool&, const Runtime& runtime, DeviceId device) {
  std::vector<T> values(count);
  REQUIRE(runtime.state().backend(device.backend)->copy_from_device(device, std::as_writable_bytes(std::span(values)), from));
  return values;
}

/// The pool beside what it should hold.
class Model {
 public:
  Model(const Runtime& runtime, DeviceId device, const PoolModelRun& run) : runtime_(runtime), device_(device), random_(run.seed) {
    UnifiedPoolOptions options;
    options.device = device;
    options.size = Bytes{kSize};
    options.page_size = kPageSize;
    options.layers = kLayers;
    options.latent_width = kWidth;
    options.rope_width = 0;
    options.kv_virtual_pages = kKvIds;
    options.state_page_bytes = Bytes{kStatePage};
    options.state_virtual_pages = kStateIds;
    options.compaction = run.compaction;
    auto pool = UnifiedPool::create(runtime, options);
    REQUIRE_MESSAGE(pool, (pool ? "" : pool.error().text()));
    pool_.emplace(std::move(*pool));
    auto stream = runtime.create_stream(device);
    REQUIRE(stream);
    stream_ = std::move(*stream);
    // The tables and the buffer keep their addresses for the pool's life.
    for (const PoolSide side : {PoolSide::kv, PoolSide::state}) tables_[side] = {pool_->v2p(side).data, pool_->p2v(side).data};
  }

  void step(int allocations_percent, bool deferred) {
    const PoolSide side = random_() % 3 == 0 ? PoolSide::state : PoolSide::kv;
    if (static_cast<int>(random_() % 100) >= allocations_percent) return write(side);
    const auto choice = random_() % (deferred ? 5 : 4);
    if (choice == 4) return compact(side);
    choice < 2 ? allocate(side) : free(side);
  }

  void check() {
    REQUIRE(stream_.synchronize());
    std::map<PoolSide, std::int64_t> ends;
    for (const PoolSide side : {PoolSide::kv, PoolSide::state}) check_side(side);
    const auto kv = pool_->statistics(PoolSide::kv), state = pool_->statistics(PoolSide::state);
    CHECK(static_cast<std::uint64_t>(kv.watermark) * kKvPage + static_cast<std::uint64_t>(state.watermark) * kStatePage <= kSize);
  }

 private:
  std::map<std::int64_t, Content>& live(PoolSide side) { return live_[side]; }
  static std::uint64_t bytes(PoolSide side) { return side == PoolSide::kv ? kKvPage : kStatePage; }
  static std::int64_t ids(PoolSide side) { return side == PoolSide::kv ? kKvIds : kStateIds; }

  void allocate(PoolSide side) {
    const auto before = pool_->statistics(side);
    const auto count = static_cast<std::int64_t>(random_() % 7);
    const auto got = pool_->allocate(side, count, stream_.handle());
    const bool fits = count <= before.free_virtual && count <= before.holes + before.free_pages;
    REQUIRE(got.has_value() == fits);
    if (!fits) {
      CHECK(got.error().code == ErrorCode::out_of_memory);
      ++exhausted;
      return;
    }
    CHECK(static_cast<std::int64_t>(got->size()) == count);
    for (const std::int64_t id : *got) {
      CHECK(id > 0);
      CHECK(id < ids(side));
      CHECK(live(side).emplace(id, Content(bytes(side), 0)).second);  // new, and zeroed
    }
  }

  void free(PoolSide side) {
    std::vector<std::int64_t> some;
    for (const auto& [id, content] : live(side)) {
      if (random_() % 3 == 0) some.push_back(id);
    }
    std::ranges::shuffle(some, random_);
    // Now and then a list that must be refused whole.
    if (random_() % 8 == 0) {
      std::vector<std::int64_t> wrong = some;
      const std::int64_t strangers[] = {0, -1, ids(side), wrong.empty() ? ids(side) + 5 : wrong.front()};
      wrong.push_back(strangers[random_() % 4]);
      const auto refused = pool_->free(side, wrong, stream_.handle());
      REQUIRE_FALSE(refused);
      CHECK(refused.error().code == ErrorCode::invalid_argument);
      ++refusals;
      return;
    }
    const auto freed = pool_->free(side, some, stream_.handle());
    REQUIRE_MESSAGE(freed, (freed ? "" : freed.error().text()));
    for (const std::int64_t id : some) live(side).erase(id);
    if (!some.empty()) ++frees;
  }

  void compact(PoolSide side) {
    const auto before = pool_->statistics(side);
    const auto moved = pool_->compact(side, stream_.handle());
    REQUIRE(moved);
    CHECK(pool_->statistics(side).watermark == before.watermark - before.holes);
    CHECK(pool_->statistics(side).holes == 0);
  }

  void write(PoolSide side) {
    if (live(side).empty()) return;
    auto chosen = live(side).begin();
    std::advance(chosen, static_cast<std::ptrdiff_t>(random_() % live(side).size()));
    for (std::uint8_t& value : chosen->second) value = static_cast<std::uint8_t>(random_());
    REQUIRE(stream_.synchronize());
    REQUIRE(runtime_.state()
                .backend(device_.backend)
                ->copy_to_device(device_, pool_->page_address(side, chosen->first), std::as_bytes(std::span(chosen->second))));
    ++writes;
  }

  void check_side(PoolSide side) {
    const auto count = static_cast<std::size_t>(ids(side)) + 1;
    CHECK(pool_->v2p(side).data == tables_[side].first);
    CHECK(pool_->p2v(side).data == tables_[side].second);
    const auto v2p = download<std::int64_t>(tables_[side].first, count, *pool_, runtime_, device_);
    const auto p2v =
        download<std::int64_t>(tables_[side].second, static_cast<std::size_t>(pool_->p2v(side).shape[0]), *pool_, runtime_, device_);
    CHECK(v2p.front() == 0);
    CHECK(p2v.front() == 0);
    CHECK(v2p.back() == -1);
    CHECK(p2v.back() == -1);
    // kv page p begins at p · bytes; state pages are numbered from the end.
    const auto* const start = static_cast<const std::uint8_t*>(pool_->dense_view(0)->data);
    const auto all = download<std::uint8_t>(start, kSize, *pool_, runtime_, device_);
    std::int64_t bound = 0, wrong = 0;
    for (std::size_t v = 1; v + 1 < count; ++v) {
      const auto known = live(side).find(static_cast<std::int64_t>(v));
      if (known == live(side).end()) {
        wrong += v2p[v] != -1 ? 1 : 0;
        continue;
      }
      const std::int64_t page = v2p[v];
      REQUIRE(page >= 1);
      REQUIRE(page < pool_->statistics(side).watermark);
      wrong += p2v[static_cast<std::size_t>(page)] != static_cast<std::int64_t>(v) ? 1 : 0;
      const std::uint64_t at =
          side == PoolSide::kv ? static_cast<std::uint64_t>(page) * kKvPage : kSize - static_cast<std::uint64_t>(page + 1) * kStatePage;
      wrong += std::equal(known->second.begin(), known->second.end(), all.begin() + static_cast<std::ptrdiff_t>(at)) ? 0 : 1;
      ++bound;
    }
    CHECK(wrong == 0);
    CHECK(std::ranges::count_if(p2v, [](std::int64_t v) { return v > 0; }) == bound);
    CHECK(pool_->statistics(side).used == bound);
  }

  Runtime runtime_;
  DeviceId device_;
  std::mt19937_64 random_;
  std::optional<UnifiedPool> pool_;
  Stream stream_;
  std::map<PoolSide, std::map<std::int64_t, Content>> live_;
  std::map<PoolSide, std::pair<void*, void*>> tables_;

 public:
  int writes = 0, frees = 0, exhausted = 0, refusals = 0;
  [[nodiscard]] std::int64_t moved() const {
    return pool_->statistics(PoolSide::kv).moved_pages + pool_->statistics(PoolSide::state).moved_pages;
  }
};

}  // namespace

void pool_keeps_every_byte(const Runtime& runtime, DeviceId device, const PoolModelRun& run) {
  Model model(runtime, device, run);
  for (int i = 0; i < run.operations; ++i) {
    CAPTURE(i);
    model.step(run.allocations_percent, run.compaction == Compaction::deferred);
    model.check();
  }
  // The run met what it is for.
  CHECK(model.writes > run.operations / 10);
  CHECK(model.frees > 0);
  CHECK(model.exhausted > 0);
  CHECK(model.refusals > 0);
  CHECK(model.moved() > 0);
}

}  // namespace kernwright::cases
