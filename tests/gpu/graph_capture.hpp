// CUDA graphs through the driver, for tests.
#pragma once

#include <cuda.h>

#include <string>

#include "kernwright/device.hpp"

namespace kernwright::gpu {

/// A captured graph that can be replayed. Every call checks the driver's answer with doctest's assertions.
class CapturedGraph {
 public:
  /// Begins a capture in global mode: the strictest, which other threads' unsafe calls would break.
  static void begin(StreamHandle stream);
  /// Ends it and instantiates what was captured.
  static CapturedGraph end(StreamHandle stream);
  CapturedGraph(CapturedGraph&& other) noexcept;
  CapturedGraph& operator=(CapturedGraph&&) = delete;
  ~CapturedGraph();
  void replay(StreamHandle stream) const;
  [[nodiscard]] std::size_t nodes() const noexcept { return nodes_; }

 private:
  CapturedGraph(CUgraphExec exec, std::size_t nodes) noexcept : exec_(exec), nodes_(nodes) {}
  CUgraphExec exec_;
  std::size_t nodes_;
};

}  // namespace kernwright::gpu
