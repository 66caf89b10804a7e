#include "prepare/warm_cost.hpp"

#include <algorithm>

namespace kernwright {

double compile_cost(const Tile& tile) noexcept {
  // Fitted to sparse MLA prefill under NVRTC 13.0 on an AMD EPYC: mma:m64n32s2w8 0.26 s, mma:m64n16s2w8 0.22, mma:m32n32s2w8 0.17,
  // mma:m16n32s2w4 0.20, portable:m16n16s1w4 0.15, and the wgmma variants half as long again as mma. Others count as mma.
  constexpr double kUnit = 0.06;
  constexpr double kLargestShare = 6;  // axes in units of an engine's own would run away with it
  const double weight = tile.variant.starts_with("wgmma") ? 1.6 : tile.variant == "portable" ? 0.75 : 1.0;
  const double elements = static_cast<double>(tile.block_m) * tile.block_n;
  const double share = std::min(elements / (256.0 * std::max(tile.warps, 1)), kLargestShare);
  return kUnit * weight * (3 + share);
}

}  // namespace kernwright
