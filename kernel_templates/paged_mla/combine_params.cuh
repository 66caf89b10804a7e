// The run-time parameters of paged_mla/combine. The fields behind `partials` say how the attention kernel before it was launched.
#pragma once

#include "paged_mla/decode_params.cuh"

namespace kw::paged_mla {

inline constexpr int largest_slices = 32;  // of 16 columns, 64 bytes, each

struct CombineParams {
  Sequences sequences;
  void* out;   // [batch, query_tokens, heads, 512] bf16
  float* lse;  // [batch, query_tokens, heads] or null
  Partials partials;
  long long out_stride_request, out_stride_token, out_stride_head;
  int query_tokens;
  int heads;
  int slot_rows;  // of partial results: the attention's row tiles · its tile's block_m
  int tile_keys;  // its tile's block_n
  int shares;
  int slice_bits;  // a row has 2^slice_bits blocks, up to largest_slices
};

}  // namespace kw::paged_mla
