// A tile: the part of a launch that is tuned.
#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "kernwright/result.hpp"

namespace kernwright {

/// Written `mma:m64n32s2w8`: variant, rows (block_m), keys or columns (block_n), pipeline stages, warps. The numbers' meaning beyond
/// that is the template's.
struct Tile {
  std::string variant;
  int block_m = 0;
  int block_n = 0;
  int stages = 0;
  int warps = 0;

  static Result<Tile> parse(std::string_view text);
  [[nodiscard]] std::string text() const;
  friend auto operator<=>(const Tile&, const Tile&) = default;
};

}  // namespace kernwright
