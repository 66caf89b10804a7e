#include "kernwright/tile.hpp"

#include <charconv>

namespace kernwright {
namespace {

constexpr int kLargestAxisValue = 65536;

bool is_identifier(std::string_view text) {
  if (text.empty() || (text.front() >= '0' && text.front() <= '9')) return false;
  for (const char c : text) {
    if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_') return false;
  }
  return true;
}

/// Consumes `letter` and a positive number.
bool take_axis(std::string_view& rest, char letter, int& value) {
  if (rest.empty() || rest.front() != letter) return false;
  rest.remove_prefix(1);
  const auto [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (problem != std::errc{} || value < 1 || value > kLargestAxisValue || rest.front() == '0') return false;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return true;
}

}  // namespace

Result<Tile> Tile::parse(std::string_view text) {
  Tile tile;
  const std::size_t colon = text.find(':');
  if (colon != std::string_view::npos && is_identifier(text.substr(0, colon))) {
    tile.variant = text.substr(0, colon);
    std::string_view rest = text.substr(colon + 1);
    if (take_axis(rest, 'm', tile.block_m) && take_axis(rest, 'n', tile.block_n) && take_axis(rest, 's', tile.stages) &&
        take_axis(rest, 'w', tile.warps) && rest.empty()) {
      return tile;
    }
  }
  return fail(ErrorCode::invalid_argument, "tile '" + std::string(text.substr(0, 100)) +
                                               "' is not of the form variant:m<rows>n<columns>s<stages>w<warps> with numbers from 1 to " +
                                               std::to_string(kLargestAxisValue) + ", for example mma:m64n32s2w8");
}

std::string Tile::text() const {
  return variant + ":m" + std::to_string(block_m) + "n" + std::to_string(block_n) + "s" + std::to_string(stages) + "w" +
         std::to_string(warps);
}

}  // namespace kernwright
