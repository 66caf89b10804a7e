// The arguments of one decode batch of `bench paged-mla`, and whether the answers are right.
#pragma once

#include <cstdint>
#include <vector>

#include "kernwright/paged_mla_decode.hpp"
#include "paged_mla_bench_pool.hpp"
#include "support/sparse_mla_check.hpp"

namespace kernwright::tool {

inline constexpr std::int64_t kBenchValueWidth = 512;

class PagedMlaBenchProblem {
 public:
  /// q of N(0, 1) and sm_scale d_qk^(-1/2). `op`, `pool` and `source` must outlive it.
  static Result<PagedMlaBenchProblem> create(const Runtime& runtime, const PagedMlaDecode& op, const BenchPool& pool,
                                             const KvSource& source, std::uint64_t seed);

  /// The attention of one of the pool's batches, enqueued.
  [[nodiscard]] Result<> run(std::int64_t set, StreamHandle stream) const;

  struct Checked {
    support::SparseMlaCheck check;
    std::int64_t requests = 0;
  };
  /// Runs the first batch and the last on outputs full of NaNs, looks for what is not finite, and compares the first, the last and a random
  /// request of each with the CPU reference, which knows the source's rows and nothing of pages.
  [[nodiscard]] Result<Checked> check();

 private:
  PagedMlaBenchProblem(const PagedMlaDecode& op, const BenchPool& pool, const KvSource& source, std::uint64_t seed)
      : op_(&op), pool_(&pool), source_(&source), seed_(seed) {}
  [[nodiscard]] std::int64_t rows_of_request() const { return std::int64_t{op_->options().query_tokens} * op_->options().heads; }
  [[nodiscard]] support::SparseMlaCheck check_requests(std::int64_t set, const std::vector<std::int64_t>& requests,
                                                       const std::vector<support::Bf16>& out, const std::vector<float>& lse) const;

  const PagedMlaDecode* op_;
  const BenchPool* pool_;
  const KvSource* source_;
  std::uint64_t seed_;
  Stream stream_;
  std::vector<support::Bf16> q_;
  DeviceBuffer device_q_, out_, lse_, workspace_;
  PagedMlaDecodeArguments arguments_;
};

}  // namespace kernwright::tool
