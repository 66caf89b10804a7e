// Bounds on TOML text that are checked before the parser sees it.
#pragma once

#include <cstddef>
#include <string_view>

namespace kernwright {

inline constexpr std::size_t kMostTomlBytes = 1U << 20;
inline constexpr int kMostTomlLevels = 32;

/// The line on which brackets nest, or a dotted key or table name runs, deeper than `levels`; 0 where none does. The parser and the
/// destructors of what it builds recurse once a level, so that depth has to be bounded before parsing.
/// Exact for text that is TOML; for other text it may stop early or count too much, and the parser stops at the same place.
int first_line_nested_deeper(std::string_view text, int levels);

}  // namespace kernwright
