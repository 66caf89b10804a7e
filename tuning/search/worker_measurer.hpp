// Measures in a worker process, which is started anew only after a kernel has ended it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "search/contest.hpp"
#include "search/measurement_json.hpp"
#include "search/worker_process.hpp"

namespace kernwright::tuning {

/// The lines that pass. To the worker: the set-up once, then {"task":…, "give_up_ms":[…]} each time. From it: {"ready":true} once; then
/// {"stage":"…"} as often as it likes, which only says that it lives, and {"measurement":…}, with "last":true where the process is of no
/// more use. {"fatal":"…","code":"…"} says why nothing can be measured at all.
struct WorkerLines {
  static std::string ready() { return line_of({{"ready", true}}); }
  static std::string stage(std::string_view what) { return line_of({{"stage", what}}); }
  static std::string fatal(const Error& error);
  static std::string answer(const Measurement& measurement, bool last);
  static std::string request(const Task& task, std::span<const double> give_up_ms);
};
struct WorkerRequest {
  Task task;
  std::vector<double> give_up_ms;
};
/// malformed where the line is no request.
Result<WorkerRequest> parse_request(std::string_view line);

struct WorkerSettings {
  WorkerCommand command;
  Json setup;
  double silence_seconds = 60;  ///< Between two lines; a worker that says nothing for so long hangs.
  double start_seconds = 120;   ///< Until it is ready.
};

class WorkerMeasurer final : public Measurer {
 public:
  explicit WorkerMeasurer(WorkerSettings settings) : settings_(std::move(settings)) {}
  void expect(std::span<const Task>) override {}
  Result<Measurement> measure(const Task& task, std::span<const double> give_up_ms) override;
  [[nodiscard]] std::size_t starts() const noexcept { return starts_; }

 private:
  Result<> ensure_worker();
  Result<> send(const std::string& line);

  WorkerSettings settings_;
  std::unique_ptr<WorkerProcess> worker_;
  std::size_t starts_ = 0;
};

}  // namespace kernwright::tuning
