// The tile that a command is told to ask for.
#pragma once

#include <optional>
#include <string>

#include "kernwright/result.hpp"
#include "kernwright/tile.hpp"

namespace kernwright::tool {

/// What --tile says; empty where it was not given. invalid_argument names the option, what came and what is legal.
Result<std::optional<Tile>> parse_tile(const std::string& word);

}  // namespace kernwright::tool
