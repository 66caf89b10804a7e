// What the threads of a running block wait for, and the words for a block that cannot go on. No waiting and no lock in here: mode
// `threads` guards barrier i, warp i and the end of threads by a mutex each.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "backend/host/named_barrier.hpp"
#include "backend/host/simt/abi.hpp"
#include "backend/host/warp_collectives.hpp"

namespace kernwright::host {

/// Where a thread is. Written by the thread itself under the guard of what it waits for.
struct ThreadPlace {
  enum class Kind : unsigned char { running, finished, barrier, collective };
  Kind kind = Kind::running;
  unsigned number = 0;   ///< Barrier id, or mask.
  unsigned threads = 0;  ///< That the barrier waits for.
  kw::simt::Location where{};
};

class BlockState {
 public:
  void reset(kw::simt::Index block, unsigned threads);

  enum class Outcome : unsigned char { wait, go_on, fault };

  /// go_on: barrier(id).waiting() are released, the caller among them; the caller empties it by take() after use. fault: `problem` says
  /// what.
  Outcome arrive_at_barrier(unsigned thread, unsigned id, unsigned threads, kw::simt::Location where, std::string& problem);
  /// go_on: warp(w).released() are.
  Outcome arrive_at_collective(unsigned thread, const void* mine, unsigned bytes, unsigned mask, kw::simt::Location where,
                               std::string& problem);
  /// Empty, or what is illegal about a cp.async.
  std::string async_copy_problem(unsigned thread, const void* shared, const void* global, unsigned copy_bytes, unsigned source_bytes,
                                 kw::simt::Location where) const;

  void set_running(unsigned thread) noexcept { places_[thread].kind = ThreadPlace::Kind::running; }
  void set_finished(unsigned thread) noexcept { places_[thread].kind = ThreadPlace::Kind::finished; }

  /// No thread can go on and not all have finished: who waits for what, and where the others are.
  [[nodiscard]] std::string deadlock() const;

  [[nodiscard]] NamedBarrier& barrier(unsigned id) noexcept { return barriers_[id]; }
  [[nodiscard]] WarpCollectives& warp(unsigned index) noexcept { return warps_[index]; }
  [[nodiscard]] unsigned threads() const noexcept { return static_cast<unsigned>(places_.size()); }
  [[nodiscard]] unsigned warps() const noexcept { return (threads() + kw::simt::kWarpSize - 1) / kw::simt::kWarpSize; }

 private:
  [[nodiscard]] std::string in_block() const;

  kw::simt::Index block_{};
  std::vector<ThreadPlace> places_;
  std::array<NamedBarrier, NamedBarrier::kCount> barriers_;
  std::vector<WarpCollectives> warps_;
};

}  // namespace kernwright::host
