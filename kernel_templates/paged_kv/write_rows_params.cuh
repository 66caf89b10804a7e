// The run-time parameters of paged_kv/write_rows: one struct for the kernel and for the op that fills it.
#pragma once

namespace kw::paged_kv {

struct WriteRowsParams {
  const void* latent;          // [count, latent_width], row stride latent_stride
  const void* rope;            // [count, rope_width], row stride rope_stride; null where rope_width is 0
  const long long* locations;  // [count] dense ids, or virtual token ids (loc_is_dense 0)
  const long long* v2p;        // [virtual_pages + 1] or null: a static pool
  void* view;                  // a layer's dense view, [view_rows, row_stride]
  long long virtual_pages;
  long long latent_stride;  // strides in elements
  long long rope_stride;
  long long row_stride;
  long long view_rows;  // locations at or above it are not written, nor is location 0, the sink
  long long count;      // 0: nothing to do
};

}  // namespace kw::paged_kv
