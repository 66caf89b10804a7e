// What may be tried: the tiles that a manifest offers, less those that their plans rule out before anything is compiled.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernwright/plan.hpp"
#include "kernwright/runtime.hpp"
#include "kernwright/tile.hpp"
#include "manifest/manifest.hpp"
#include "prepare/candidates.hpp"

namespace kernwright::tuning {

/// Every tile that the manifest's axes make on the target: variants in its order, then block_m, block_n, stages and warps, the last
/// fastest.
std::vector<Tile> offered_tiles(const Manifest& manifest, const Target& target);

struct SearchSpace {
  std::vector<Candidate> points;  ///< Legal and within the limits, in the order of offered_tiles().
  std::size_t offered = 0;
  std::size_t illegal = 0;      ///< make_plan refuses them for the specialisation.
  std::size_t over_limits = 0;  ///< More shared memory or threads than a block may have.
  std::string last_over_limit;  ///< The words about one of these; empty where there is none.

  /// The place of the tile among the points; points.size() where it is none.
  [[nodiscard]] std::size_t place_of(const Tile& tile) const;
};

/// `plans` are those of `tiles`, in order.
SearchSpace prune(std::span<const Tile> tiles, std::span<const Plan> plans, const BlockLimits& limits);

/// The space of one specialisation on one device. Compiles the plan header (once a store), no kernel. Errors: unsupported where no variant
/// is offered on the device's target; else as the compiler.
Result<SearchSpace> search_space(Runtime::State& state, const Specialised& specialised, const DeviceInfo& device);

/// The tile that runs where no table says anything: the first of the fall-back order that is in the space. unsupported where none is.
Result<Tile> default_tile(const SearchSpace& space, const Manifest& manifest, const Target& target);

}  // namespace kernwright::tuning
