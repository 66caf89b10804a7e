// What a block of paged MLA decode does: the pieces of its share, one after the other.
#pragma once

#include "common/barrier.cuh"
#include "common/shared_memory.cuh"
#include "paged_mla/decode_plan.cuh"
#include "paged_mla/decode_rows.cuh"
#include "paged_mla/partition.cuh"

namespace kw::paged_mla {

/// `Attention` is a variant's state for one piece, made from the block's shared memory:
///
///   void attend(rows, keys, scale_log2)
///   void store(rows) const                    a piece that is its whole request
///   void store_partial(rows, partial) const
template <class Attention>
KW_INLINE void work_on_share(const DecodeParams& params) {
  unsigned char* shared = dynamic_shared();
  u32* scratch = reinterpret_cast<u32*>(shared + mla::layout.row_offset);
  u32* parked = reinterpret_cast<u32*>(shared + mla::layout.bytes);
  static_assert(mla::layout.bytes + parked_words * 4 <= block_bytes(mla::layout));
  const u32 share = blockIdx.x / row_tiles;
  const int first_row = static_cast<int>(blockIdx.x % row_tiles) * tile.block_m;
  SharePieces<tile.warps, tile.block_n> pieces(params.sequences, share, static_cast<int>(gridDim.x / row_tiles), scratch);
  for (; pieces.more(); pieces.next()) {
    if (!pieces.first()) block_sync();  // everyone is through with the piece before: its Q, its stages, its output's place
    pieces.park(parked);
    block_sync();
    const RequestRows rows{params, pieces.request(), first_row};
    Attention attention(shared);
    attention.attend(rows, PagedKeys(params, pieces.request(), pieces.length(), pieces.first_key(), pieces.past_key()),
                     params.sm_scale * log2_e);
    pieces.take_up(parked);
    const RequestRows finished{params, pieces.request(), first_row};
    if (pieces.whole()) {
      attention.store(finished);
    } else {
      attention.store_partial(finished, PartialRows(params, partial_slot(share, pieces.first()), first_row));
    }
  }
}

}  // namespace kw::paged_mla
