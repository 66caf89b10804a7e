#include "gpu/graph_capture.hpp"

#include <doctest/doctest.h>

#include <utility>

namespace kernwright::gpu {

void CapturedGraph::begin(StreamHandle stream) {
  const auto begun = support::StreamGraph::begin(stream);
  REQUIRE_MESSAGE(begun, (begun ? "" : begun.error().text()));
}

CapturedGraph CapturedGraph::end(StreamHandle stream) {
  auto graph = support::StreamGraph::end(stream);
  REQUIRE_MESSAGE(graph, (graph ? "" : graph.error().text()));
  return CapturedGraph(std::move(*graph));
}

void CapturedGraph::replay(StreamHandle stream) const {
  const auto replayed = graph_.replay(stream);
  REQUIRE_MESSAGE(replayed, (replayed ? "" : replayed.error().text()));
}

}  // namespace kernwright::gpu
