// How the keys of a batch are shared out. The attention and the merge compute the same partition from the lengths, each for itself.
//
// A request of n tokens is max(1, ceil(n / tile_keys)) tiles of keys. The tiles of all requests, one after the other, are cut into shares
// of equal size, so that each block works as long as the others whatever the lengths are:
//
//   request     0                 1        2                                3
//             ├────┬────┬────┬───┼────┬───┼────┬────┬────┬────┬────┬────┬──┼────┬───┤   tiles
//   share     ├── 0 ────────┼── 1 ────────┼── 2 ────────┼── 3 ────────┼── 4 ────────┤
//   piece      0a            0b   1        2a            2b            2c   3
//
// A piece is what a share has of a request. The only piece of its request is written to the output at once; the others go to partial
// results, at most two of a share: its first piece, and its last where that begins inside the share.
#pragma once

#include "common/block_reduce.cuh"
#include "common/types.cuh"
#include "common/warp.cuh"
#include "paged_mla/partition_params.cuh"

namespace kw::paged_mla {

KW_INLINE int length_of(const Sequences& sequences, i64 request) {
  const i64 length = sequences.wide != 0 ? static_cast<const i64*>(sequences.lengths)[request]
                                         : static_cast<i64>(static_cast<const int*>(sequences.lengths)[request]);
  return static_cast<int>(minimum<i64>(maximum<i64>(length, 0), sequences.largest_length));
}

/// A request without a key has a tile too, in which its output is found to be empty.
KW_INLINE u32 tiles_of(int length, int tile_keys) {
  return static_cast<u32>(maximum(1, ceil_div(length, tile_keys)));
}

/// The host sees to it that a batch has fewer than 2^31 tiles.
KW_INLINE u32 tiles_a_share(const Sequences& sequences, u32 total, int shares, int tile_keys) {
  return maximum(ceil_div(total, static_cast<u32>(shares)), static_cast<u32>(ceil_div(sequences.minimum_keys, tile_keys)));
}

/// Tiles of the requests from the first up to `end`, in every thread of the block.
template <int warps>
KW_INLINE u32 tiles_before(const Sequences& sequences, i64 end, int tile_keys, u32* scratch) {
  u32 sum = 0;
  for (i64 request = threadIdx.x; request < end; request += warps * 32) sum += tiles_of(length_of(sequences, request), tile_keys);
  return reduce_block<warps>(sum, scratch, [](u32 a, u32 b) { return a + b; });
}

struct TilesBefore {
  u32 request;  // tiles in front of the request's first
  u32 total;    // of the batch
};

/// In every thread of the block, with one barrier; `scratch` has two words a warp.
template <int warps>
KW_INLINE TilesBefore tiles_before_request(const Sequences& sequences, i64 request, int tile_keys, u32* scratch) {
  TilesBefore sum{0, 0};
  for (i64 other = threadIdx.x; other < sequences.batch; other += warps * 32) {
    const u32 tiles = tiles_of(length_of(sequences, other), tile_keys);
    sum.total += tiles;
    if (other < request) sum.request += tiles;
  }
  const auto add = [](u32 a, u32 b) { return a + b; };
  sum = {reduce_lanes<32>(sum.request, add), reduce_lanes<32>(sum.total, add)};
  if (lane_id() == 0) {
    scratch[2 * warp_id()] = sum.request;
    scratch[2 * warp_id() + 1] = sum.total;
  }
  block_sync();
  sum = {0, 0};
  KW_UNROLL
  for (int warp = 0; warp < warps; ++warp) {
    sum.request += scratch[2 * warp];
    sum.total += scratch[2 * warp + 1];
  }
  return sum;
}

/// Which of a share's two partial results a piece goes to: the first where it begins with the share.
KW_INLINE i64 partial_slot(u32 share, bool begins_share) {
  return i64{share} * 2 + (begins_share ? 0 : 1);
}

/// The row of partial results of row `row` (token · heads + head) of a request. A slot has `slot_rows`: those of its row tiles.
KW_INLINE i64 partial_row(i64 slot, int slot_rows, int row) {
  return slot * slot_rows + row;
}

inline constexpr int parked_words = 6;

/// The pieces of one share, in order. The same in every thread of the block. Where registers are short it can be parked in shared memory.
template <int warps, int tile_keys>
class SharePieces {
 public:
  /// All threads of the block together; `scratch` (warps + 2 words) is free again when it returns.
  KW_INLINE SharePieces(const Sequences& sequences, u32 share, int shares, u32* scratch) : sequences_(sequences) {
    const u32 total = tiles_before<warps>(sequences, sequences.batch, tile_keys, scratch);
    const u32 size = tiles_a_share(sequences, total, shares, tile_keys);
    at_ = share * size;
    end_ = minimum(total, at_ + size);
    if (more()) find(scratch);
  }

  KW_INLINE bool more() const { return at_ < end_; }
  KW_INLINE void next() {
    at_ = request_begin_ + past_tile();
    first_ = false;
    if (!more()) return;
    request_begin_ = at_;
    length_ = length_of(sequences_, ++request_);
  }

  KW_INLINE bool first() const { return first_; }
  KW_INLINE i64 request() const { return request_; }
  KW_INLINE int length() const { return length_; }
  KW_INLINE int first_key() const { return static_cast<int>(at_ - request_begin_) * tile_keys; }
  KW_INLINE int past_key() const { return minimum(length_, static_cast<int>(past_tile()) * tile_keys); }
  KW_INLINE bool whole() const { return at_ == request_begin_ && past_tile() == tiles_of(length_, tile_keys); }

  /// Tiles of the batch: the one behind the piece, and the one behind the share.
  KW_INLINE u32 past() const { return request_begin_ + past_tile(); }
  KW_INLINE u32 end() const { return end_; }

  /// Into parked_words of shared memory; barriers are the caller's.
  KW_INLINE void park(u32* words) const {
    if (threadIdx.x != 0) return;
    words[0] = at_;
    words[1] = end_;
    words[2] = request_;
    words[3] = request_begin_;
    words[4] = static_cast<u32>(length_);
    words[5] = first_ ? 1 : 0;
  }
  KW_INLINE void take_up(const u32* words) {
    at_ = words[0];
    end_ = words[1];
    request_ = words[2];
    request_begin_ = words[3];
    length_ = static_cast<int>(words[4]);
    first_ = words[5] != 0;
  }

 private:
  KW_INLINE u32 past_tile() const { return minimum(tiles_of(length_, tile_keys), end_ - request_begin_); }

  /// The request that tile `at_` belongs to.
  KW_INLINE void find(u32* scratch) {
    u32 before = 0;
    for (i64 first = 0;; first += warps * 32) {
      const i64 request = first + threadIdx.x;
      const u32 tiles = request < sequences_.batch ? tiles_of(length_of(sequences_, request), tile_keys) : 0;
      const u32 through = inclusive_sum(tiles);
      if (lane_id() == 31) scratch[warp_id()] = through;
      block_sync();
      u32 begin = before + through - tiles;
      for (int warp = 0; warp < warps; ++warp) {
        if (warp < warp_id()) begin += scratch[warp];
        before += scratch[warp];
      }
      if (at_ >= begin && at_ - begin < tiles) {
        scratch[warps] = threadIdx.x;
        scratch[warps + 1] = begin;
      }
      block_sync();
      if (at_ < before) {
        request_ = static_cast<u32>(first) + scratch[warps];
        request_begin_ = scratch[warps + 1];
        length_ = length_of(sequences_, request_);
        block_sync();
        return;
      }
    }
  }

  const Sequences& sequences_;
  u32 at_;           // first tile of the piece
  u32 end_;          // of the share
  u32 request_ = 0;  // the host sees to it that a batch has fewer than 2^31
  u32 request_begin_ = 0;
  int length_ = 0;
  bool first_ = true;
};

}  // namespace kw::paged_mla
