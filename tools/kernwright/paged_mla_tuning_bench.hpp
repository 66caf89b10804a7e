// Judges and times tiles of paged MLA decode, inside a tuning worker.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernwright/paged_mla_decode.hpp"
#include "paged_mla_bench_check.hpp"
#include "paged_mla_bench_pool.hpp"
#include "paged_mla_points.hpp"
#include "tuning_bench.hpp"

namespace kernwright::tool {

inline constexpr const char* kPagedMlaFamily = "paged-mla";

/// What is measured, for any number of heads and new tokens.
struct PagedMlaTuningBatches {
  std::vector<PagedMlaPoint> batches;  ///< Their heads are not read.
  int page_size = 64;
};
tuning::Json json_of(const PagedMlaTuningBatches& batches);

/// The pool that a batch is read from: static, since a tile does the same work on a unified one.
BenchPoolShape tuning_pool_shape(const DeviceInfo& device, const PagedMlaPoint& batch, int page_size, std::uint64_t seed);

/// Pools are filled once, whatever the number of heads; queries are made for the heads and new tokens at hand.
class PagedMlaTuningBench final : public FamilyBench {
 public:
  /// malformed where the set-up is; otherwise as BenchPool::create.
  static Result<std::unique_ptr<FamilyBench>> open(const Runtime& runtime, const WorkerSetUp& set_up, const StageListener& stage);

  [[nodiscard]] std::vector<std::string> shapes() const override;
  Result<> place(const Specialisation& specialisation, const StageListener& stage) override;
  Result<> prepare(const tuning::Task& task) override;
  Result<> provide(std::size_t shape, bool judged, const StageListener& stage) override;
  Result<std::string> judge(std::size_t shape) override;
  Result<Times> time(std::size_t shape, const TimingOptions& options) override;

 private:
  struct Point {
    std::string name;
    BenchPool pool;
    std::optional<PagedMlaBenchProblem> problem;          ///< Of heads_ and query_tokens_.
    std::vector<support::SparseMlaReference> references;  ///< One a sample of the problem.
  };
  PagedMlaTuningBench(Runtime runtime, const WorkerSetUp& set_up, int page_size)
      : runtime_(std::move(runtime)), device_(set_up.device), references_(set_up.references), seed_(set_up.seed), page_size_(page_size) {}

  Runtime runtime_;
  DeviceId device_;
  std::filesystem::path references_;
  std::uint64_t seed_;
  int page_size_;
  KvSource source_;
  std::vector<Point> points_;  ///< Problems point to their pools: it grows before there are any.
  std::int64_t heads_ = 0, query_tokens_ = 0;
  std::optional<PagedMlaDecode> op_;
};

}  // namespace kernwright::tool
