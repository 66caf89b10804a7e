// The ids of a paged KV pool by their definition, in plain 64-bit arithmetic on the CPU. It shares nothing with the kernels.
#pragma once

#include <cstdint>
#include <vector>

namespace kernwright::support {

/// docs/paged_kv.md, "Translation", word for word. An empty v2p: a static pool.
struct PagedIds {
  std::vector<std::int64_t> v2p;  ///< [V + 1], the tombstone row last.
  std::int64_t page_size = 1;
  std::int64_t multiplier = 1;

  [[nodiscard]] std::int64_t dense(std::int64_t token) const;
  [[nodiscard]] std::int64_t page(std::int64_t token) const;  ///< Of a block table.
};

}  // namespace kernwright::support
