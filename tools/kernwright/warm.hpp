// kernwright warm
#pragma once

#include <string>

#include "console.hpp"

namespace kernwright::tool {

struct WarmOptions {
  OutputOptions output;
  std::string targets;          ///< Comma-separated; empty: KERNWRIGHT_TARGET.
  std::string heads = "8";      ///< Comma-separated.
  std::string unions = "auto";  ///< Comma-separated: auto, 0, 2, 4, 8, 16.
  int jobs = 0;                 ///< 0: one a core.
  bool no_fallbacks = false;
};

ExitCode warm(const WarmOptions& options);

}  // namespace kernwright::tool
