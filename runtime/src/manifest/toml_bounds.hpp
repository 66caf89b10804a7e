// Bounds on TOML text that are checked before the parser sees it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace kernwright {

inline constexpr std::size_t kMostTomlBytes = 1U << 20;
inline constexpr int kMostTomlLevels = 32;

struct TomlObjection {
  int line = 0;
  std::string problem;
};

/// What the parser must not be given: brackets that nest, or a dotted key or table name that runs, deeper than `levels` (the parser and the
/// destructors of what it builds recurse once a level), and characters outside ASCII in neither a string nor a comment.
/// Exact for text that is TOML; for other text it may stop early or count too much, and the parser stops at the same place.
std::optional<TomlObjection> find_toml_objection(std::string_view text, int levels);

}  // namespace kernwright
