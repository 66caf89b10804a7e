// Every paged KV kernel on one pool, and what it did beside the reference.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "kernwright/paged_mla_decode.hpp"
#include "paged_kv_pool.hpp"
#include "run_paged_kv.hpp"

namespace kernwright::tool {

struct PagedKvRunOptions {
  std::optional<Tile> tile;
  bool check = false;
};

class PagedKvPoolRun {
 public:
  PagedKvPoolRun(const Runtime& runtime, DeviceId device, const PagedKvInput& input, const PagedKvRunOptions& options)
      : runtime_(runtime), device_(device), input_(input), options_(options) {}

  Result<PagedKvPoolReport> run(PoolKind kind);

 private:
  using Launch = std::function<Result<>(StreamHandle)>;

  Result<> prepare(PoolKind kind);
  Result<> scatter_pages();
  Result<> block_table();
  Result<> token_indices();
  Result<> translate();
  Result<> write_locations();
  Result<> write_rows();
  Result<> write_layer(std::int64_t layer, std::span<const std::int64_t> tokens, bool dense, std::vector<std::uint16_t>& expected,
                       double& ms);
  Result<> attend(bool moved);
  Result<> check_attention();
  Result<> move_static_pages();
  Result<> compact();
  Result<> zero_pages();

  /// Times a launch with events and waits for it.
  Result<double> timed(const Launch& launch);
  PagedKvStep& step(std::string name, double ms);
  /// Compares element by element and notes what is wrong; nothing without --check.
  template <class T>
  void compare(PagedKvStep& step, std::span<const T> got, std::span<const T> want) const;

  /// The row that a virtual token has in a layer: the last layer's is the input's, another's is one of a neighbour.
  [[nodiscard]] std::int64_t source_row(std::int64_t token, std::int64_t layer) const;
  [[nodiscard]] std::vector<std::int64_t> written_layers() const;
  [[nodiscard]] std::int64_t table_width() const;
  [[nodiscard]] PagedKvBatch device_batch() const;

  Runtime runtime_;
  DeviceId device_;
  const PagedKvInput& input_;
  PagedKvRunOptions options_;
  PagedKvPoolReport report_;
  std::optional<PagedKvPool> pool_;
  std::optional<PagedMlaDecode> decode_;
  Stream stream_;
  support::PagedIds ids_;                    ///< As the tables are now.
  std::vector<std::int64_t> mapped_tokens_;  ///< That requests have, ascending, each once.
  DeviceBuffer req_to_token_, requests_, lengths_, starts_, table_, kv_, q_, out_, lse_, workspace_;
};

}  // namespace kernwright::tool
