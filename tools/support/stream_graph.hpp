// What a stream of cuda:0 was given, as a CUDA graph that can be replayed.
#pragma once

#include <cstddef>
#include <functional>

#include "kernwright/device.hpp"
#include "kernwright/result.hpp"

namespace kernwright::support {

class StreamGraph {
 public:
  /// Begins a capture in global mode: the strictest, which other threads' unsafe calls would break.
  static Result<> begin(StreamHandle stream);
  /// Ends it and makes what was captured ready to be replayed.
  static Result<StreamGraph> end(StreamHandle stream);
  /// Both, around what `enqueue` gives the stream; its error is the answer.
  static Result<StreamGraph> capture(StreamHandle stream, const std::function<Result<>()>& enqueue);
  StreamGraph(StreamGraph&& other) noexcept;
  StreamGraph& operator=(StreamGraph&&) = delete;
  ~StreamGraph();

  [[nodiscard]] Result<> replay(StreamHandle stream) const;
  [[nodiscard]] std::size_t nodes() const noexcept { return nodes_; }

 private:
  StreamGraph(void* executable, std::size_t nodes) noexcept : executable_(executable), nodes_(nodes) {}
  void* executable_;  ///< CUgraphExec
  std::size_t nodes_;
};

}  // namespace kernwright::support
