// One of a block's sixteen barriers: who has arrived. No waiting and no lock in here.
#pragma once

#include <vector>

#include "backend/host/simt/abi.hpp"

namespace kernwright::host {

class NamedBarrier {
 public:
  static constexpr unsigned kCount = 16;

  void reset() noexcept { waiting_.clear(); }

  enum class Outcome : unsigned char {
    wait,
    complete,     ///< `thread` was the last; waiting() holds all of them, and take() empties it.
    other_count,  ///< An earlier thread waits here for another number of threads.
    other_place,  ///< An earlier thread waits here from another line: the block diverged around __syncthreads().
  };
  /// `one_place`: all threads must come from one source line, as __syncthreads() demands; named barriers join producers and consumers.
  Outcome arrive(unsigned thread, unsigned threads, bool one_place, kw::simt::Location where);

  [[nodiscard]] const std::vector<unsigned>& waiting() const noexcept { return waiting_; }
  void take() noexcept { waiting_.clear(); }
  [[nodiscard]] unsigned expected() const noexcept { return expected_; }
  [[nodiscard]] kw::simt::Location place() const noexcept { return place_; }

 private:
  std::vector<unsigned> waiting_;
  unsigned expected_ = 0;
  kw::simt::Location place_{};
};

}  // namespace kernwright::host
