// Judges and times tiles of sparse MLA prefill, inside a tuning worker.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sparse_mla_timing.hpp"
#include "tuning_bench.hpp"

namespace kernwright::tool {

inline constexpr const char* kSparseMlaFamily = "sparse-mla";

/// What the bench is told of the shapes, but for the seed: that is the tuning's.
tuning::Json json_of(const SparseMlaPointWords& points);

/// Inputs are made and placed once for a number of heads and stay for the kernels that follow.
class SparseMlaTuningBench final : public FamilyBench {
 public:
  /// malformed where the set-up is; invalid_argument where the words of the points are off.
  static Result<std::unique_ptr<FamilyBench>> open(const Runtime& runtime, const WorkerSetUp& set_up);

  [[nodiscard]] std::vector<std::string> shapes() const override;
  Result<> place(const Specialisation& specialisation, const StageListener& stage) override;
  Result<> prepare(const tuning::Task& task) override;
  Result<> provide(std::size_t shape, bool judged, const StageListener& stage) override;
  Result<std::string> judge(std::size_t shape) override;
  Result<Times> time(std::size_t shape, const TimingOptions& options) override;

 private:
  struct Point {
    SparseMlaInput input;
    std::vector<DeviceTensors> tensors;                      ///< Rotated; the first is the input's own.
    std::map<bool, support::SparseMlaReference> references;  ///< By whether repeated positions weigh once.
  };
  SparseMlaTuningBench(Runtime runtime, const WorkerSetUp& set_up, std::vector<PointSpec> specs)
      : runtime_(std::move(runtime)),
        device_(set_up.device),
        references_(set_up.references),
        seed_(set_up.seed),
        specs_(std::move(specs)) {}
  Result<const support::SparseMlaReference*> reference(std::size_t point);

  Runtime runtime_;
  DeviceId device_;
  std::filesystem::path references_;
  std::uint64_t seed_;
  std::vector<PointSpec> specs_;
  std::vector<Point> points_;
  std::int64_t heads_ = 0;  ///< That points_ have.
  std::optional<SparseMlaPrefill> op_;
};

}  // namespace kernwright::tool
