// The run-time parameters of paged_kv/token_indices: one struct for the kernel and for the op that fills it.
#pragma once

namespace kw::paged_kv {

struct TokenIndicesParams {
  const void* req_to_token;  // [request_rows, token_stride] virtual token ids
  const void* requests;      // [batch] request slots
  const void* lengths;       // [batch] tokens; 0 or below: nothing is written
  const void* starts;        // [batch] or null (0): the first token's place in its request's row
  const int* offsets;        // [batch + 1]: where in `out` each request begins (kv_indptr)
  const long long* v2p;      // [virtual_pages + 1] or null: a static pool
  void* out;                 // dense ids; elements outside the requests' ranges are left as they are
  long long virtual_pages;
  long long token_stride;
  long long batch;  // 0: nothing to do
  int parts;        // blocks a request
};

}  // namespace kw::paged_kv
