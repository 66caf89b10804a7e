// CUDA graphs for tests.
#pragma once

#include <cstddef>
#include <utility>

#include "support/stream_graph.hpp"

namespace kernwright::gpu {

/// A captured graph that can be replayed. Every call checks the driver's answer with doctest's assertions.
class CapturedGraph {
 public:
  static void begin(StreamHandle stream);
  /// Ends it and instantiates what was captured.
  static CapturedGraph end(StreamHandle stream);
  void replay(StreamHandle stream) const;
  [[nodiscard]] std::size_t nodes() const noexcept { return graph_.nodes(); }

 private:
  explicit CapturedGraph(support::StreamGraph graph) noexcept : graph_(std::move(graph)) {}
  support::StreamGraph graph_;
};

}  // namespace kernwright::gpu
