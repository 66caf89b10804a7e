// The rows and the keys of a piece, as mla/attention_mma.cuh and mla/gather.cuh ask for them.
#pragma once

#include "common/math.cuh"
#include "common/types.cuh"
#include "mla/softmax.cuh"
#include "paged_mla/decode_plan.cuh"
#include "paged_mla/partition.cuh"

namespace kw::paged_mla {

inline constexpr int rows_a_request = rows_of(specialisation);
inline constexpr int row_tiles = ceil_div(rows_a_request, tile.block_m);

/// Keys first_key to past_key of a request, found through its row of the block table.
///
/// Draft token i of s_q is the request's token length − s_q + i and attends to the keys up to itself: all but the last s_q − 1 − i. Where a
/// request is shorter than s_q, its first draft tokens attend to nothing.
struct PagedKeys {
  struct Key {
    i64 row;
    u32 owners;
  };
  const unsigned char* kv;
  i64 row_bytes;
  u64 kv_rows;
  const int* pages;
  int first;
  int count;
  int length;  // of the request

  KW_INLINE PagedKeys(const DecodeParams& params, i64 request, int tokens, int first_key, int past_key)
      : kv(static_cast<const unsigned char*>(params.kv)),
        row_bytes(params.kv_stride_row * 2),
        kv_rows(static_cast<u64>(params.kv_rows)),
        pages(params.block_table + request * params.table_stride),
        first(first_key),
        count(past_key - first_key),
        length(tokens) {}

  /// A page that is outside the view holds empty slots.
  KW_INLINE Key key(int slot) const {
    if (slot >= length) return {0, 0};
    constexpr u32 page_size = specialisation.page_size;
    const u32 position = static_cast<u32>(slot);
    const i64 row = i64{pages[position / page_size]} * page_size + position % page_size;
    if (static_cast<u64>(row) >= kv_rows) return {0, 0};
    constexpr u32 all = (1u << specialisation.query_tokens) - 1;
    const int hidden_from = maximum(0, slot + specialisation.query_tokens - length);  // the first so many draft tokens
    return {row, all << hidden_from & all};
  }
  KW_INLINE const unsigned char* address(i64 row) const { return kv + row * row_bytes; }
  KW_INLINE const unsigned char* base() const { return kv; }
};

/// A row tile of a request.
struct RequestRows {
  const DecodeParams& params;
  i64 request;
  int first_row;

  KW_INLINE int row(int r) const { return first_row + r; }
  KW_INLINE int token(int r) const { return row(r) / specialisation.heads; }
  KW_INLINE int head(int r) const { return row(r) % specialisation.heads; }
  KW_INLINE bool padding(int r) const { return row(r) >= rows_a_request; }
  KW_INLINE const unsigned char* query(int r) const {
    const unsigned char* q = static_cast<const unsigned char*>(params.q);
    if (padding(r)) return q;
    return q + (request * params.q_stride_request + token(r) * params.q_stride_token + head(r) * params.q_stride_head) * 2;
  }
  KW_INLINE unsigned char* output(int r) const {
    return static_cast<unsigned char*>(params.out) +
           (request * params.out_stride_request + token(r) * params.out_stride_token + head(r) * params.out_stride_head) * 2;
  }
  /// Of a piece that is its whole request.
  KW_INLINE mla::RowScale finish(int r, float reference, float sum, bool writes) const {
    if (padding(r)) return {0.0f, true};
    const bool empty = sum == 0.0f;
    if (writes && params.lse != nullptr) {
      params.lse[request * rows_a_request + row(r)] = empty ? infinity : (reference + log2_approx(sum)) * log_2;
    }
    return {1.0f / sum, empty};
  }
};

/// Where the partial results of a piece's row tile go.
struct PartialRows {
  const DecodeParams& params;
  i64 first;  // row of partials.out

  KW_INLINE PartialRows(const DecodeParams& call, i64 slot, int first_row)
      : params(call), first(partial_row(slot, row_tiles * tile.block_m, first_row)) {}
  KW_INLINE float* output(int r) const { return params.partials.out + (first + r) * mla::d_v; }
  KW_INLINE mla::RowScale finish(int r, float reference, float sum, bool writes) const {
    const bool empty = sum == 0.0f;
    if (writes) params.partials.lse[first + r] = empty ? -infinity : reference + log2_approx(sum);
    return {1.0f / sum, empty};
  }
};

}  // namespace kw::paged_mla
