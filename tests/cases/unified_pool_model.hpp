// A unified pool against a model that keeps every page's bytes. Uses doctest's assertions; the caller is a TEST_CASE.
#pragma once

#include <cstdint>

#include "kernwright/unified_pool.hpp"

namespace kernwright::cases {

struct PoolModelRun {
  Compaction compaction = Compaction::eager;
  int operations = 1000;
  int allocations_percent = 30;  ///< Of the operations that allocate, free or compact; the others write to a live page.
  std::uint64_t seed = 1;
};

/// Random allocate, free, write and compact on both sides. After each operation every live page's bytes are where the device's own tables
/// say, the tables are inverse to each other, dead ids read the sink, and the two sides do not overlap.
void pool_keeps_every_byte(const Runtime& runtime, DeviceId device, const PoolModelRun& run);

}  // namespace kernwright::cases
