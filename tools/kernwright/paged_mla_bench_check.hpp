// The arguments of one decode batch of `bench paged-mla` and `tune paged-mla`, and whether the answers are right.
#pragma once

#include <cstdint>
#include <functional>
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

  /// Takes another op of the same options but for the tile.
  void use(const PagedMlaDecode& op) noexcept { op_ = &op; }

  /// Requests of one batch that are compared: the first, the last and a random one.
  struct Sample {
    std::int64_t set = 0;
    std::vector<std::int64_t> requests;
  };
  /// Of the first batch and of the last.
  [[nodiscard]] std::vector<Sample> samples() const;
  /// By the CPU reference, which knows the source's rows and nothing of pages.
  [[nodiscard]] support::SparseMlaReference reference(const Sample& sample) const;

  struct Checked {
    support::SparseMlaCheck check;
    std::int64_t requests = 0;
  };
  using ReferenceSource = std::function<Result<support::SparseMlaReference>(const Sample&)>;
  /// Runs the batch of each sample on outputs and a workspace full of NaNs, looks for what is not finite, and compares the sample with its
  /// reference, up to the first that is wrong.
  [[nodiscard]] Result<Checked> check(const ReferenceSource& reference_of);
  [[nodiscard]] Result<Checked> check() {
    return check([this](const Sample& sample) -> Result<support::SparseMlaReference> { return reference(sample); });
  }

 private:
  PagedMlaBenchProblem(const PagedMlaDecode& op, const BenchPool& pool, const KvSource& source, std::uint64_t seed)
      : op_(&op), pool_(&pool), source_(&source), seed_(seed) {}
  [[nodiscard]] std::int64_t rows_of_request() const { return std::int64_t{op_->options().query_tokens} * op_->options().heads; }
  [[nodiscard]] support::SparseMlaCheck compare(const Sample& sample, const support::SparseMlaReference& reference,
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
