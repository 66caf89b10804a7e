// A CUDA graph of one decode step, through the driver's own interface. An engine has this already; Kernwright needs nothing but a stream
// that captures.
#pragma once

#include <functional>

#include "kernwright/device.hpp"
#include "kernwright/result.hpp"

namespace decode_loop {

class StepGraph {
 public:
  /// Captures what `enqueue` gives the stream, and makes it ready to be replayed. The stream's device is cuda:0.
  static kernwright::Result<StepGraph> capture(kernwright::StreamHandle stream, const std::function<kernwright::Result<>()>& enqueue);
  StepGraph(StepGraph&& other) noexcept;
  StepGraph& operator=(StepGraph&&) = delete;
  ~StepGraph();
  [[nodiscard]] kernwright::Result<> replay(kernwright::StreamHandle stream) const;
  [[nodiscard]] std::size_t launches() const noexcept { return launches_; }

 private:
  StepGraph(void* executable, std::size_t launches) noexcept : executable_(executable), launches_(launches) {}
  void* executable_;  ///< CUgraphExec
  std::size_t launches_;
};

}  // namespace decode_loop
