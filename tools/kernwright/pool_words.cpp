#include "pool_words.hpp"

#include <fmt/format.h>

#include "support/format.hpp"

namespace kernwright::tool {

std::string_view pool_word(PoolKind kind) {
  return kind == PoolKind::static_pool ? "static" : "unified";
}

Result<std::vector<PoolKind>> parse_pools(const std::string& words) {
  std::vector<PoolKind> kinds;
  for (const std::string& word : support::split(words, ',')) {
    if (word != "static" && word != "unified") {
      return fail(ErrorCode::invalid_argument, fmt::format("--pools '{}': legal are static and unified, comma-separated", word));
    }
    kinds.push_back(word == "static" ? PoolKind::static_pool : PoolKind::unified_mla);
  }
  if (kinds.empty()) return fail(ErrorCode::invalid_argument, "--pools '': legal are static and unified, comma-separated");
  return kinds;
}

}  // namespace kernwright::tool
