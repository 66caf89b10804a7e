// Judges and times tiles inside a tuning worker: the steps of a measurement, which are the same for every family of kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernwright/runtime.hpp"
#include "search/measurement.hpp"
#include "timing_options.hpp"
#include "tune_worker.hpp"

namespace kernwright::tool {

/// Told of each step, so that the process that waits knows that this one lives.
using StageListener = std::function<void(std::string_view)>;

/// The value of an integer parameter; 0 where there is none.
std::int64_t integer_of(const Specialisation& specialisation, std::string_view name);

/// What a family does on its shapes, which are counted from 0. Not thread-safe.
class FamilyBench {
 public:
  virtual ~FamilyBench() = default;
  [[nodiscard]] virtual std::vector<std::string> shapes() const = 0;
  /// Makes the inputs of every shape for the specialisation, where those that are there are of another one. An error is of the inputs, and
  /// no kernel's.
  virtual Result<> place(const Specialisation& specialisation, const StageListener& stage) = 0;
  /// Makes the op with the task's tile, which the following calls run. An error is the kernel's.
  virtual Result<> prepare(const tuning::Task& task) = 0;
  /// Gives the shape what the op needs to run, and to be judged where `judged`. An error is of the inputs, and no kernel's.
  virtual Result<> provide(std::size_t shape, bool judged, const StageListener& stage) = 0;
  /// Compares the op's output with the reference: what is wrong, empty where it is right. Nothing of an earlier kernel's work may pass for
  /// this one's. An error is the kernel's.
  virtual Result<std::string> judge(std::size_t shape) = 0;
  struct Times {
    std::vector<double> milliseconds;  ///< One a repetition.
    bool given_up = false;
  };
  /// An error is the kernel's.
  virtual Result<Times> time(std::size_t shape, const TimingOptions& options) = 0;
};

class TuningBench {
 public:
  /// With the bench of the set-up's family. Errors: malformed where no family has that name; those of the family's words and inputs.
  static Result<TuningBench> open(const Runtime& runtime, const WorkerSetUp& set_up, const StageListener& stage);

  /// In the search every shape is judged against the reference before it is timed; a kernel that was right there is only timed later.
  /// What a kernel does wrong is the measurement's outcome; an error is of the inputs, and no kernel's.
  Result<tuning::Measurement> measure(const tuning::Task& task, const std::vector<double>& give_up_ms, const StageListener& stage);

 private:
  explicit TuningBench(std::unique_ptr<FamilyBench> family) : family_(std::move(family)) {}

  std::unique_ptr<FamilyBench> family_;
  int warm_ups_ = 0, repetitions_ = 0;
  std::unique_ptr<tuning::ClockSource> clock_;  ///< Null: not watched.
  std::string clock_not_watched_;               ///< Why; empty on host, which has no clock to watch.
};

}  // namespace kernwright::tool
