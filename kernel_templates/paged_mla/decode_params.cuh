// The run-time parameters of paged_mla/decode: one struct for the kernel and for the op that fills it. Strides are in elements.
#pragma once

#include "paged_mla/partition_params.cuh"

namespace kw::paged_mla {

inline constexpr int largest_tile_rows = 64;

/// Partial results of a share's first and of its last request, where those are cut: [shares, 2, row_tiles, block_m] rows.
struct Partials {
  float* out;  // [rows, 512] of a softmax over the piece's keys alone
  float* lse;  // [rows] logarithm to base 2 of the piece's sum of exponentials; -inf: no key
};

struct DecodeParams {
  Sequences sequences;
  const void* q;           // [batch, query_tokens, heads, d_qk] bf16
  const void* kv;          // [kv_rows, d_qk] bf16: a layer's dense view; V is the first 512 columns
  const int* block_table;  // [batch, ...]: page ids of the dense view
  void* out;               // [batch, query_tokens, heads, 512] bf16
  float* lse;              // [batch, query_tokens, heads] or null
  Partials partials;
  long long q_stride_request, q_stride_token, q_stride_head;
  long long kv_stride_row;
  long long table_stride;
  long long out_stride_request, out_stride_token, out_stride_head;
  long long kv_rows;
  float sm_scale;
};

}  // namespace kw::paged_mla
