#include "sparse_mla_words.hpp"

#include <fmt/format.h>

namespace kernwright::tool {

Result<std::optional<int>> parse_union(const std::string& word, bool deterministic) {
  if (word == "auto") return std::optional<int>{};
  for (const int group : {0, 2, 4, 8, 16}) {
    if (word != std::to_string(group)) continue;
    if (deterministic && group != 0) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--union {} contradicts --deterministic, which turns union off; legal with it are auto and 0", word));
    }
    return std::optional<int>{group};
  }
  return fail(ErrorCode::invalid_argument, fmt::format("--union {}: legal are auto, 0 (off), 2, 4, 8, 16", word));
}

}  // namespace kernwright::tool
