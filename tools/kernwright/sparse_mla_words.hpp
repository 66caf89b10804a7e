// Words of the command line that `run`, `bench` and `warm` share.
#pragma once

#include <optional>
#include <string>

#include "kernwright/result.hpp"

namespace kernwright::tool {

/// auto (empty), 0, 2, 4, 8, 16. invalid_argument for another word, and for a union together with --deterministic.
Result<std::optional<int>> parse_union(const std::string& word, bool deterministic);

}  // namespace kernwright::tool
