// The tiles that a block fills its ring with: block_n slots of a token's list each, on over the borders of tokens, so that the ring never
// runs empty between two.
#pragma once

#include "common/global_memory.cuh"
#include "common/types.cuh"
#include "gather_limit/gather_plan.cuh"
#include "gather_limit/token_queue.cuh"

namespace gather_limit {

/// A thread has slot `row` of each tile and every `rows_at_once`th behind it. Their entries are read when the tile before is filled, and a
/// token's length when the token before is begun: a fill waits for neither.
template <int rows_at_once>
class TileWalk {
 public:
  static constexpr int passes = kw::ceil_div(kw::tile.block_n, rows_at_once);

  KW_INLINE TileWalk(const GatherParams& params, kw::u32* taken, int row) : params_(params), queue_(params, taken), row_(row) {
    look_ahead();
    begin_token();
    read_entries();
  }

  KW_INLINE bool done() const { return token_ < 0; }  // the same for all threads
  KW_INLINE int token() const { return token_; }
  /// Below 0: an empty slot.
  KW_INLINE int kv_row(int pass) const { return rows_[pass]; }

  /// By all threads.
  KW_INLINE void next() {
    first_ += kw::tile.block_n;
    if (first_ >= length_) begin_token();
    read_entries();
  }

 private:
  KW_INLINE void look_ahead() {
    next_token_ = queue_.next();
    next_length_ = next_token_ < 0 ? 0 : kw::load_once(params_.lengths + next_token_);
  }

  KW_INLINE void begin_token() {
    do {
      token_ = next_token_;
      length_ = next_length_;
      first_ = 0;
      if (token_ < 0) return;
      look_ahead();
    } while (length_ == 0);
  }

  KW_INLINE void read_entries() {
    const int* list = params_.indices + static_cast<kw::i64>(token_) * params_.topk;
    KW_UNROLL
    for (int pass = 0; pass < passes; ++pass) {
      const int in_tile = row_ + pass * rows_at_once;
      const int slot = first_ + in_tile;
      rows_[pass] = token_ >= 0 && in_tile < kw::tile.block_n && slot < length_ ? kw::load_once(list + slot) : -1;
    }
  }

  const GatherParams& params_;
  TokenQueue queue_;
  int row_;
  int token_ = -1;
  int length_ = 0;
  int first_ = 0;
  int next_token_ = -1;
  int next_length_ = 0;
  int rows_[passes];
};

}  // namespace gather_limit
