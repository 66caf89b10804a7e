// Which tokens a block works on, from the last to the first: the later ones of a prompt have the longer lists, so what is left for the end
// is short.
#pragma once

#include "common/atomics.cuh"
#include "common/barrier.cuh"
#include "common/types.cuh"
#include "gather_limit/gather_params.cuh"

namespace gather_limit {

/// With a counter, blocks take one token after another from it. Without, each has a fixed share, dealt out back and forth: what one round
/// gives a block too much of, the next takes away.
class TokenQueue {
 public:
  /// By all threads, and so is next(). `taken`: two words of shared memory.
  KW_INLINE TokenQueue(const GatherParams& params, kw::u32* taken) : params_(params), taken_(taken) {
    if (params_.next != nullptr) take();
  }

  /// The block's next token; -1, once, where there is none left.
  KW_INLINE int next() {
    const kw::u32 tokens = static_cast<kw::u32>(params_.tokens);
    kw::u32 place;
    if (params_.next == nullptr) {
      place = turn_ * gridDim.x + (turn_ % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
    } else {
      kw::u32* const slot = taken_ + turn_ % 2;  // two, so that one barrier is enough: nobody reads the other any more
      if (threadIdx.x == 0) {
        *slot = place_;
        // Every block takes one place behind the last token. The last of these puts the counter back.
        if (place_ == tokens + gridDim.x - 1) *params_.next = 0;
      }
      kw::block_sync();
      place = *slot;
      if (place < tokens) take();
    }
    ++turn_;
    return place < tokens ? static_cast<int>(tokens - 1 - place) : -1;
  }

 private:
  /// A turn before it is handed out, so that nobody waits for the counter.
  KW_INLINE void take() {
    if (threadIdx.x == 0) place_ = kw::atomic_add_global(params_.next, 1);
  }

  const GatherParams& params_;
  kw::u32* taken_;
  kw::u32 turn_ = 0;
  kw::u32 place_ = 0;  // thread 0's
};

}  // namespace gather_limit
