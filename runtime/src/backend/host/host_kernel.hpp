// One kernel of the host backend.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "backend/backend.hpp"
#include "backend/host/interpreter.hpp"
#include "backend/host/object_file.hpp"

namespace kernwright::host {

inline constexpr int kMaxThreads = 1024;  ///< A block's, as on every CUDA device.

class HostKernel final : public LoadedKernel {
 public:
  HostKernel(ObjectFile object, DeviceInfo device, std::shared_ptr<Interpreter> interpreter);

  Result<> fit(const Plan& plan) override;
  int launch(const Grid& grid, const Plan& plan, const void* params, void* stream) noexcept override;
  Error explain(int status, const std::string& what, void* stream) override;

 private:
  struct Problem {
    int status;
    std::string words;
  };
  /// 0, or why this plan and grid cannot run at all.
  [[nodiscard]] int refusal(const Grid& grid, const Plan& plan, void* stream) const noexcept;
  int launch_blocks(const LaunchRequest& request) noexcept;
  int remember(std::string problem) noexcept;

  const ObjectFile object_;
  const DeviceInfo device_;
  const std::shared_ptr<Interpreter> interpreter_;
  std::mutex one_at_a_time_;  // held by a launch in the modes whose shared variables are the object's statics
  std::mutex problems_mutex_;
  std::deque<Problem> problems_;  // of the last launches that failed, for explain()
  int last_status_ = 0;
};

}  // namespace kernwright::host
