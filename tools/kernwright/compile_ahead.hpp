// Compiles the kernels of coming measurements on other threads while earlier ones are timed.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kernwright/runtime.hpp"
#include "search/contest.hpp"

namespace kernwright::tool {

/// In front of a measurer whose processes read the same store. A kernel that the compiler refuses is not passed on.
class CompileAhead final : public tuning::Measurer {
 public:
  /// `first_all`: no measurement begins before all compiles have ended, for devices that share the processors with the compiler.
  CompileAhead(Runtime runtime, Target target, int jobs, bool first_all, tuning::Measurer& inner)
      : runtime_(std::move(runtime)), target_(std::move(target)), jobs_(jobs), first_all_(first_all), inner_(inner) {}
  CompileAhead(const CompileAhead&) = delete;
  CompileAhead& operator=(const CompileAhead&) = delete;
  ~CompileAhead() override;

  void expect(std::span<const tuning::Task> tasks) override;
  Result<tuning::Measurement> measure(const tuning::Task& task, std::span<const double> give_up_ms) override;

 private:
  [[nodiscard]] std::optional<Error> compile(const tuning::Task& task) const;
  void end_compiles();

  Runtime runtime_;
  Target target_;
  int jobs_;
  bool first_all_;
  tuning::Measurer& inner_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::optional<Error>, std::less<>> compiled_;  ///< By Task::words(); empty: it is in the store.
  std::map<std::string, bool, std::less<>> waiting_;
  std::jthread compiling_;
};

}  // namespace kernwright::tool
