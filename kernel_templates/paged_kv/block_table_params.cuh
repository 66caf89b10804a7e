// The run-time parameters of paged_kv/block_table: one struct for the kernel and for the op that fills it.
#pragma once

namespace kw::paged_kv {

struct BlockTableParams {
  const void* req_to_token;  // [request_rows, token_stride] virtual token ids: row r is request slot r's, in the order of its tokens
  const void* requests;      // [batch] request slots
  const void* lengths;       // [batch] tokens; 0 or below: nothing is written
  const void* starts;        // [batch] or null (0): the token of the request's row where the table begins
  const long long* v2p;      // [virtual_pages + 1] or null: a static pool
  int* out;                  // [batch, out_stride]: page ids; cells past a request's pages are left as they are
  long long virtual_pages;
  long long token_stride;
  long long out_stride;
  long long batch;  // 0: nothing to do
  int parts;        // blocks a request
};

}  // namespace kw::paged_kv
