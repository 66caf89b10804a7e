// The kernel's one argument: gather_limit.py has the same members in the same order.
#pragma once

namespace gather_limit {

struct GatherParams {
  const unsigned char* kv;  // [kv_rows, row_bytes], aligned to 16 bytes
  const int* indices;       // [tokens, topk]; below 0, or at or above kv_rows: an empty slot, for which nothing is copied
  const int* lengths;       // [tokens]: a list's slots up to its last that is not empty, at most topk
  unsigned int* next;       // 0, and left at 0: blocks take their tokens one by one; null: each has a fixed share
  unsigned int* sums;       // [tokens]: sums of what arrived are added, see arrived.cuh; null: where time is measured
  int tokens;               // 0: nothing to do
  int topk;
  int kv_rows;
};

}  // namespace gather_limit
