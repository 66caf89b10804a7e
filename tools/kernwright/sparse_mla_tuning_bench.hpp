// Judges and times tiles of sparse MLA prefill, inside a tuning worker.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "search/measurement.hpp"
#include "sparse_mla_timing.hpp"
#include "tune_worker.hpp"

namespace kernwright::tool {

/// Inputs are made and placed once for a number of heads and stay for the kernels that follow. Not thread-safe.
class SparseMlaTuningBench {
 public:
  /// invalid_argument where the words of the points are off.
  static Result<SparseMlaTuningBench> open(Runtime runtime, WorkerSetUp set_up);

  /// In the search every shape is judged against the reference before it is timed; a kernel that was right there is only timed later.
  /// `stage` is told of each step. What a kernel does wrong is the measurement's outcome; an error is of the inputs, and no kernel's.
  Result<tuning::Measurement> measure(const tuning::Task& task, const std::vector<double>& give_up_ms,
                                      const std::function<void(std::string_view)>& stage);

 private:
  struct Point {
    SparseMlaInput input;
    std::vector<DeviceTensors> tensors;                      ///< Rotated; the first is the input's own.
    std::map<bool, support::SparseMlaReference> references;  ///< By whether repeated positions weigh once.
  };
  SparseMlaTuningBench(Runtime runtime, WorkerSetUp set_up, std::vector<PointSpec> specs)
      : runtime_(std::move(runtime)), set_up_(std::move(set_up)), specs_(std::move(specs)) {}
  Result<> place_points(std::int64_t heads, const std::function<void(std::string_view)>& stage);
  Result<SparseMlaPrefill> make_op(const tuning::Task& task);
  Result<const support::SparseMlaReference*> reference(std::size_t point, bool with_union);
  /// Empty where the output is right.
  Result<std::string> judge(std::size_t point, const SparseMlaPrefill& op);

  Runtime runtime_;
  WorkerSetUp set_up_;
  std::vector<PointSpec> specs_;
  std::vector<Point> points_;
  std::unique_ptr<tuning::ClockSource> clock_;  ///< Null: not watched.
  std::string clock_not_watched_;               ///< Why; empty on host, which has no clock to watch.
  std::int64_t heads_ = 0;                      ///< That points_ have.
};

}  // namespace kernwright::tool
