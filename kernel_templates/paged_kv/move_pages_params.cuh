// The run-time parameters of paged_kv/move_pages: one struct for the kernel and for the op that fills it.
#pragma once

namespace kw::paged_kv {

struct MovePagesParams {
  unsigned char* pool;     // 16-byte aligned
  const long long* moves;  // [count, 2]: source and destination page, on the device; no page is in two pairs
  long long page_bytes;    // a page's envelope, a multiple of 16
  long long count;         // 0: nothing to do
  int parts;               // blocks a page
};

}  // namespace kw::paged_kv
