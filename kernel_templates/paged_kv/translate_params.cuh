// The run-time parameters of paged_kv/translate: one struct for the kernel and for the op that fills it.
#pragma once

namespace kw::paged_kv {

struct TranslateParams {
  const void* in;        // virtual token ids
  void* out;             // dense ids; may be `in` itself
  const int* count;      // how many, on the device, or null: `capacity` of them
  const long long* v2p;  // [virtual_pages + 1] or null: a static pool
  long long virtual_pages;
  long long capacity;  // 0: nothing to do. A count outside [0, capacity] is clamped; what lies past it is neither read nor written
};

}  // namespace kw::paged_kv
