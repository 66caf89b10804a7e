#include "tile_word.hpp"

#include <utility>

namespace kernwright::tool {

Result<std::optional<Tile>> parse_tile(const std::string& word) {
  if (word.empty()) return std::nullopt;
  auto tile = Tile::parse(word);
  if (!tile) return fail(std::move(tile.error()).within("reading --tile"));
  return std::move(*tile);
}

}  // namespace kernwright::tool
