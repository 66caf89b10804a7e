// Times the block table of a large batch, checked cell for cell before.
#pragma once

#include "bench_paged_mla.hpp"

namespace kernwright::tool {

struct BlockTableBenchShape {
  PagedMlaPoint point;  ///< Its heads mean nothing.
  PoolKind pool = PoolKind::static_pool;
  PageIds ids = PageIds::anywhere;
  int page_size = 64;
  int layers = 1;  ///< L of a unified pool.
  std::uint64_t seed = 1;
};
/// Requests in as many batches as keep one's token ids out of the L2 cache when its turn comes. In a unified pool physical pages lie
/// anywhere.
Result<BlockTableBenchPoint> measure_block_table(const Runtime& runtime, const DeviceInfo& device, const BlockTableBenchShape& shape,
                                                 const BatchTimingOptions& timing);

}  // namespace kernwright::tool
