// The run-time parameters of sparse_mla/prefill: one struct for the kernel and for the op that fills it. Strides are in elements.
#pragma once

namespace kw::sparse_mla {

struct PrefillParams {
  const void* q;            // [tokens, heads, d_qk] bf16
  const void* kv;           // [kv_rows, d_qk] bf16; V is the first 512 columns
  const int* indices;       // [tokens, topk]; not read where group_size > 1
  const int* topk_length;   // [tokens] or null; not read where group_size > 1
  const float* attn_sink;   // [heads] or null
  void* out;                // [tokens, heads, 512] bf16
  float* max_logits;        // [tokens, heads] or null
  float* lse;               // [tokens, heads] or null
  const int* union_rows;    // [groups, union_capacity] ascending kv rows; group_size > 1 only
  const void* union_masks;  // [groups, union_capacity] ownership: bit i is token i of the group; u8 for group_size <= 8, u16 for 16
  const int* union_counts;  // [groups] rows in each union
  unsigned* next_work;      // wgmma, wgmma_keys: where persistent blocks take their work from, 0 at the start. Null: a fixed share each.
  long long q_stride_token, q_stride_head;
  long long kv_stride_row;
  long long out_stride_token, out_stride_head;
  long long tokens;  // 0: nothing to do, the kernel returns at once
  long long kv_rows;
  long long union_capacity;
  int topk;
  float sm_scale;
};

}  // namespace kw::sparse_mla
