// Rows of Q and of KV into shared memory by cp.async, swizzled for ldmatrix.
//
// A row is d_qk / 8 pieces of 16 bytes, row_bytes = 16 · pieces apart: a multiple of 128, so that unswizzled the same piece of eight
// neighbouring rows would lie in the same four banks. Piece c of row r is therefore kept at place c xor (r mod 8), which stays inside the
// 128 bytes that c is in:
//
//            place 0   1   2   3   4   5   6   7 | 8   9  ...
//   row 0          0   1   2   3   4   5   6   7 | 8   9
//   row 1          1   0   3   2   5   4   7   6 | 9   8
//   row 2          2   3   0   1   6   7   4   5 | 10  11
//   ...
//   row 7          7   6   5   4   3   2   1   0 | 15  14
//
// Any eight rows of one piece (ldmatrix, transposed or not) and the eight pieces of one row's 128 bytes (the copies) lie in all 32 banks.
//
// What the rows are is the template's affair: `Rows` (see mla/attention_mma.cuh) for Q, `Keys` for KV:
//
//   Keys::Key                            a slot: `row`, and `owners`, whose bit i says that token i attends to it; 0: an empty slot
//   int first, count                     the slots are first to first + count
//   Key key(int slot) const              also of slots behind them, where it gives an empty slot, or one that nobody looks at
//   const unsigned char* address(row)    of an owned slot
//   const unsigned char* base() const    any address of kv; nothing is read from it
#pragma once

#include "common/cp_async.cuh"
#include "common/shared_memory.cuh"
#include "common/types.cuh"
#include "kernwright/specialisation.cuh"
#include "mla/tile_layout.cuh"

namespace kw::mla {

constexpr TileLayout layout = tile_layout(specialisation.d_qk, tile);
static_assert(layout.legal, "make_plan answers threads = 0 for this tile");
static_assert(specialisation.dtype == DType::bf16);
static_assert(layout.row_bytes % 128 == 0);

/// Shares `rows` rows out among the block's threads: eight threads copy 128 bytes of a row at a time. Where there are more threads than
/// that takes, `parts` times eight threads share a row; where there are fewer, the rows are taken in `passes`.
template <int rows>
struct RowCopy {
  static constexpr int slots = layout.threads / 8;
  static constexpr int passes = maximum(1, rows / slots);
  static constexpr int parts = maximum(1, slots / rows);
  static constexpr int panels = layout.chunks / 8;

  static KW_INLINE int row(int pass) { return static_cast<int>(threadIdx.x) / 8 % rows + pass * slots; }
  /// One of the threads that copy a row.
  static KW_INLINE bool first_of_row() { return threadIdx.x % 8 == 0 && (parts == 1 || threadIdx.x / 8 < rows); }

  /// Copies this thread's share of row `pass` into `shared`, row 0's place; zeros, reading nothing, where `present` is false.
  static KW_INLINE void start(SharedAddress shared, int pass, const unsigned char* from, bool present) {
    const int piece = static_cast<int>(threadIdx.x) % 8;
    const int part = static_cast<int>(threadIdx.x) / 8 / rows;
    const int r = row(pass);
    const SharedAddress to = shared + static_cast<u32>(r * layout.row_bytes + (piece ^ (r % 8)) * 16 + part * 128);
    const unsigned char* source = from + (present ? piece * 16 + part * 128 : 0);
    KW_UNROLL
    for (int panel = 0; panel < panels; panel += parts) {
      if (panel + part < panels) cp_async_16(to + static_cast<u32>(panel * 128), present ? source + panel * 128 : from, present ? 16 : 0);
    }
  }
};

template <class Rows>
KW_INLINE void start_query_copy(const Rows& rows, SharedAddress queries) {
  using Copy = RowCopy<tile.block_m>;
  KW_UNROLL
  for (int pass = 0; pass < Copy::passes; ++pass) {
    const int r = Copy::row(pass);
    Copy::start(queries, pass, rows.query(r), !rows.padding(r));
  }
}

/// Copies tiles of keys in order, and has the list's entries of the next tile in registers by the time they are needed.
template <class Keys>
class KeyCopy {
 public:
  KW_INLINE KeyCopy(const Keys& list, SharedAddress keys, u32* owners) : list_(list), keys_(keys), owners_(owners), first_(list.first) {
    fetch();
  }

  /// Starts the copies of the next tile into `stage` and writes the owners of its keys there.
  KW_INLINE void start(int stage) {
    const SharedAddress to = keys_ + static_cast<u32>(stage * tile.block_n * layout.row_bytes);
    KW_UNROLL
    for (int pass = 0; pass < Copy::passes; ++pass) {
      const typename Keys::Key key = next_[pass];
      const bool present = key.owners != 0;
      Copy::start(to, pass, present ? list_.address(key.row) : list_.base(), present);
      if (Copy::first_of_row()) owners_[stage * tile.block_n + Copy::row(pass)] = key.owners;
    }
    first_ += tile.block_n;
    fetch();
  }

 private:
  using Copy = RowCopy<tile.block_n>;

  KW_INLINE void fetch() {
    KW_UNROLL
    for (int pass = 0; pass < Copy::passes; ++pass) next_[pass] = list_.key(first_ + Copy::row(pass));
  }

  const Keys& list_;
  SharedAddress keys_;
  u32* owners_;
  int first_;
  typename Keys::Key next_[Copy::passes];
};

}  // namespace kw::mla
