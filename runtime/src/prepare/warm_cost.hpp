// How long a tile's compile is likely to take, so that the longest begin first.
#pragma once

#include "kernwright/tile.hpp"

namespace kernwright {

/// Seconds on a core of 2024, by the variant's name and the work of a warp. Only its order and its proportions are used: the first keeps
/// the end of a warming short, the second tells the time that is left once real compiles have given the scale.
double compile_cost(const Tile& tile) noexcept;

}  // namespace kernwright
