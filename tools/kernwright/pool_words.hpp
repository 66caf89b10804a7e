// The kinds of pools as words of the command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernwright/pool_hooks.hpp"

namespace kernwright::tool {

std::string_view pool_word(PoolKind kind);  ///< "static", "unified"

/// "static", "unified", or both, comma-separated. invalid_argument names the word.
Result<std::vector<PoolKind>> parse_pools(const std::string& words);

}  // namespace kernwright::tool
