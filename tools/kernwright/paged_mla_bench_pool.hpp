// The pools that `bench paged-mla` and `tune paged-mla` read: large ones, filled on the device.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernwright/unified_pool.hpp"
#include "support/bf16.hpp"

namespace kernwright::tool {

inline constexpr std::int64_t kKvRowWidth = 576;  ///< 512 latent, 64 rope.
inline constexpr std::int64_t kKvRowBytes = kKvRowWidth * 2;

/// Random rows that a pool's tokens are copies of: token t of all requests, one after the other, is row t mod count. A prime count longer
/// than a request gives the tokens of one page different neighbours in each request.
struct KvSource {
  std::vector<support::Bf16> rows;  ///< [count, 576]
  std::int64_t count = 0;
  DeviceBuffer device;
};
Result<KvSource> make_kv_source(const Runtime& runtime, DeviceId device, std::int64_t request_tokens, std::uint64_t seed);

/// A static pool as those of BenchPool are; `pages` with page 0, the sink.
PagedKvOptions static_pool_options(DeviceId device, int page_size, std::int64_t pages);

inline constexpr double kUsableMemory = 0.85;  ///< Of a device, for pools.

/// Batches of so many requests that keep the L2 cache from helping: one is read again only after many times the cache's size.
std::int64_t rotated_sets(const DeviceInfo& device, std::int64_t batch, std::int64_t tokens);

struct BenchPoolShape {
  PoolKind kind = PoolKind::static_pool;
  int layers = 1;  ///< L of a unified pool; the last one is filled and read.
  int page_size = 64;
  std::int64_t sets = 1;  ///< Batches of requests that the pool holds, so that one after the other can be read.
  std::int64_t batch = 1;
  std::int64_t tokens = 0;  ///< Of each request.
  std::uint64_t seed = 1;

  [[nodiscard]] std::int64_t request_pages() const { return (tokens + page_size - 1) / page_size; }
  [[nodiscard]] std::int64_t pages() const { return sets * batch * request_pages(); }
  /// Pages of other requests that are freed again in a unified pool, so that compaction moves pages.
  [[nodiscard]] std::int64_t other_pages() const { return kind == PoolKind::static_pool ? 0 : pages() / 8 + 1; }
  [[nodiscard]] double bytes() const;  ///< Of the pool.
};

/// A static pool has each request's pages in order. In a unified one they lie in random physical pages: handed out to requests in a random
/// order, an eighth of them freed again, the rest moved by compaction.
class BenchPool {
 public:
  /// Errors: out_of_memory, invalid_argument where 32 bits do not hold the pool's token ids, and those of the kernels.
  static Result<BenchPool> create(const Runtime& runtime, DeviceId device, const BenchPoolShape& shape, const KvSource& source);

  [[nodiscard]] TensorView kv() const;
  [[nodiscard]] TensorView block_table(std::int64_t set) const;
  [[nodiscard]] TensorView lengths() const;  ///< [batch] i32
  [[nodiscard]] const BenchPoolShape& shape() const { return shape_; }
  [[nodiscard]] std::int64_t moved_pages() const { return pool_ ? pool_->statistics(PoolSide::kv).moved_pages : 0; }

 private:
  BenchPool() = default;
  Result<> make_pool(const Runtime& runtime, DeviceId device);
  Result<> write_rows(const Runtime& runtime, DeviceId device, const KvSource& source);
  Result<> write_block_tables(const Runtime& runtime, DeviceId device);
  [[nodiscard]] const PagedKv& kernels() const { return pool_ ? pool_->kernels() : *static_kernels_; }
  [[nodiscard]] TensorView v2p() const { return pool_ ? pool_->hooks().v2p : TensorView{}; }
  /// Of a token of all requests, one after the other.
  [[nodiscard]] std::int64_t virtual_id(std::int64_t token) const;

  BenchPoolShape shape_;
  Stream stream_;
  std::optional<UnifiedPool> pool_;
  std::optional<PagedKv> static_kernels_;
  std::vector<std::int64_t> pages_;  ///< Virtual, of all requests.
  DeviceBuffer static_rows_, tables_, lengths_;
};

}  // namespace kernwright::tool
