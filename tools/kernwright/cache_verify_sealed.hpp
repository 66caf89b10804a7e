// kernwright cache verify --sealed --list F
#pragma once

#include <string>

#include "cache.hpp"

namespace kernwright::tool {

struct VerifySealedWords {
  std::string list;             ///< A launch list; needed.
  std::string targets;          ///< Comma-separated, in place of the list's; may be empty.
  std::string template_folder;  ///< Laid over the built-in templates; empty: those alone.
};

/// Proves that a sealed process would find everything that the list asks for: each plan table and kernel is looked up as it would, with no
/// compiler. Exit code 1 where something is missing or bad; it is named with the command that warms it.
ExitCode cache_verify_sealed(const CacheOptions& options, const VerifySealedWords& words);

}  // namespace kernwright::tool
