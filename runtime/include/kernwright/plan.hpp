// What a launch needs, computed in the template and read from the artifact.
#pragma once

#include <cstdint>

namespace kernwright {

/// The same layout as kw::Plan in kernel_templates/common/plan.cuh: read bytewise from the artifact's symbol `kw_plan`.
struct Plan {
  static constexpr std::int32_t kVersion = 1;

  std::int32_t version = 0;
  std::int32_t threads = 0;              ///< Threads a block (one dimension). 0: this tile is not legal for this specialisation.
  std::int32_t dynamic_shared = 0;       ///< Dynamic shared memory a block, bytes.
  std::int32_t rows_per_block = 0;       ///< Output rows that one block works on; the host derives the grid from it.
  std::int32_t blocks_per_sm = 0;        ///< Persistent blocks a multiprocessor; 0: not persistent.
  std::int32_t cluster = 1;              ///< Cluster width in blocks (x only).
  std::int32_t programmatic_launch = 0;  ///< 1: launch with programmatic stream serialisation.
  std::int32_t params_bytes = 0;         ///< sizeof the entry's one parameter struct.

  [[nodiscard]] constexpr bool legal() const noexcept { return version == kVersion && threads > 0; }
  friend constexpr bool operator==(const Plan&, const Plan&) = default;
};
static_assert(sizeof(Plan) == 32);

}  // namespace kernwright
