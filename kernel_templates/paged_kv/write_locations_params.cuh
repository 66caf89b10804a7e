// The run-time parameters of paged_kv/write_locations: one struct for the kernel and for the op that fills it.
#pragma once

namespace kw::paged_kv {

struct WriteLocationsParams {
  const long long* in;   // [count] virtual token ids of a step's new tokens
  long long* out;        // [capacity]: dense ids, then zeros: a padded row of the captured step goes to the sink
  const long long* v2p;  // [virtual_pages + 1] or null: a static pool
  long long virtual_pages;
  long long count;     // within [0, capacity]
  long long capacity;  // 0: nothing to do
};

}  // namespace kw::paged_kv
