// What the persistent blocks of the wgmma variants work on, as mla/wgmma_attention.cuh asks for it: the pieces of a share, one row tile.
#pragma once

#include "common/barrier.cuh"
#include "common/types.cuh"
#include "mla/softmax.cuh"
#include "paged_mla/decode_plan.cuh"
#include "paged_mla/decode_rows.cuh"
#include "paged_mla/partition.cuh"

namespace kw::paged_mla {

/// A piece's keys that are left, for the gathering warpgroup, whose registers are short: 2^32 rows would be 4 TB.
struct PieceKeys {
  struct Key {
    u32 row;
    u32 owners;
  };
  PagedKeys all;
  KW_INLINE int left() const { return all.count; }
  KW_INLINE void skip(int slots) {
    all.first += slots;
    all.count -= slots;
  }
  KW_INLINE Key key(int slot) const {
    if (slot >= all.count) return {0, 0};
    const PagedKeys::Key key = all.key(all.first + slot);
    return {static_cast<u32>(key.row), key.owners};
  }
};

/// `Shared` says where the work queue stands.
template <class Shared>
class DecodeWork {
 public:
  /// A piece, and where the next one of the share begins.
  struct Item {
    static constexpr u32 nothing = 0xFFFFFFFFu;
    u32 request;
    int first_key, past_key;
    int length;      // of the request
    u32 slot;        // of its partial results; nothing: the piece is its whole request
    u32 next, last;  // tiles of the batch: the one behind the piece, the one behind the share
    KW_INLINE bool none() const { return request == nothing; }
    KW_INLINE bool partial() const { return slot != nothing; }
    KW_INLINE u32 tiles() const { return static_cast<u32>(ceil_div(maximum(past_key - first_key, 0), tile.block_n)); }
  };
  using Keys = PieceKeys;
  using Key = PieceKeys::Key;
  static constexpr bool one_token = specialisation.query_tokens == 1;
  static constexpr bool token_has_16_rows = specialisation.heads % 16 == 0;
  static constexpr bool has_partials = true;

  /// By all threads of the block, in front of their roles.
  KW_INLINE DecodeWork(const DecodeParams& params, const Shared& shared) : params_(params), shared_(shared) {
    u32* scratch = reinterpret_cast<u32*>(shared.bytes);  // nothing has been gathered yet
    SharePieces<tile.warps, tile.block_n> pieces(params.sequences, share(), static_cast<int>(gridDim.x / row_tiles), scratch);
    if (threadIdx.x == 0) *first_item() = item(pieces);
    block_sync();
  }

  KW_INLINE Item first() const { return *first_item(); }
  KW_INLINE Item after(const Item& before) const {
    if (before.next >= before.last) return {Item::nothing, 0, 0, 0, 0, 0, 0};
    Item item;
    item.request = before.request + 1;
    item.length = length_of(params_.sequences, item.request);
    const u32 tiles = tiles_of(item.length, tile.block_n);
    const u32 held = minimum(tiles, before.last - before.next);
    item.first_key = 0;
    item.past_key = minimum(item.length, static_cast<int>(held) * tile.block_n);
    item.slot = held == tiles ? Item::nothing : static_cast<u32>(partial_slot(share(), false));
    item.next = before.next + held;
    item.last = before.last;
    return item;
  }
  KW_INLINE Keys keys(const Item& item) const { return {PagedKeys(params_, item.request, item.length, item.first_key, item.past_key)}; }
  KW_INLINE const unsigned char* key_row(u32 row) const {
    return static_cast<const unsigned char*>(params_.kv) + i64{row} * params_.kv_stride_row * 2;
  }

  KW_INLINE float sm_scale() const { return params_.sm_scale; }
  KW_INLINE RequestRows rows(const Item& item) const { return {params_, item.request, first_row()}; }
  /// Padding has the bit of a token that no key's owners have.
  KW_INLINE u32 owner_bit(const Item& item, int r) const { return 1u << minimum(rows(item).token(r), specialisation.query_tokens); }
  KW_INLINE mla::RowScale finish(const Item& item, int r, float reference, float sum, float, bool writes) const {
    const RequestRows rows_of_item = rows(item);
    if (rows_of_item.padding(r)) return {0.0f, true};
    if (!item.partial()) return rows_of_item.finish(r, reference, sum, writes);
    return PartialRows(params_, item.slot, first_row()).finish(r, reference, sum, writes);
  }
  KW_INLINE float* partial_output(const Item& item, int r) const { return PartialRows(params_, item.slot, first_row()).output(r); }

 private:
  static KW_INLINE u32 share() { return blockIdx.x / row_tiles; }
  static KW_INLINE int first_row() { return static_cast<int>(blockIdx.x % row_tiles) * tile.block_m; }
  KW_INLINE Item* first_item() const { return shared_.template work<Item>(0); }
  template <class Pieces>
  static KW_INLINE Item item(const Pieces& pieces) {
    if (!pieces.more()) return {Item::nothing, 0, 0, 0, 0, 0, 0};
    const u32 slot = pieces.whole() ? Item::nothing : static_cast<u32>(partial_slot(share(), true));
    return {static_cast<u32>(pieces.request()), pieces.first_key(), pieces.past_key(), pieces.length(), slot, pieces.past(), pieces.end()};
  }

  const DecodeParams& params_;
  const Shared& shared_;
};

}  // namespace kw::paged_mla
