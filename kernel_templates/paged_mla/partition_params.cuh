// How long the requests of a batch are and how they are cut into shares: what attention and merge must agree on.
#pragma once

namespace kw::paged_mla {

struct Sequences {
  const void* lengths;  // [batch] tokens of each request, its newest included; clamped to [0, largest_length]
  long long batch;      // 0: nothing to do, the kernel returns at once
  int largest_length;   // tokens that a row of the block table holds
  int wide;             // 1: lengths are i64, 0: i32
  int minimum_keys;     // a share has no fewer
};

}  // namespace kw::paged_mla
