// kernwright warm
#pragma once

#include <string>

#include "console.hpp"

namespace kernwright::tool {

/// Head counts after tensor parallelism over 1 to 16 ranks of models with 64 or 128 heads, and the unions that an op may choose there.
inline constexpr const char* kDefaultHeads = "8,16,32,64,128";
inline constexpr const char* kDefaultUnions = "auto,0";

/// The words as they were given. At most one of `list` and `template_name` is set; without both the heads and unions of sparse MLA prefill
/// count.
struct WarmWords {
  OutputOptions output;
  std::string list;                     ///< A launch list's file.
  std::string template_name;            ///< One kernel…
  std::string specialisation;           ///< …with these constants,
  std::string tile;                     ///< and this tile; empty: the tables'.
  std::string heads = kDefaultHeads;    ///< Numbers and ranges.
  std::string unions = kDefaultUnions;  ///< Comma-separated: auto, 0, 2, 4, 8, 16.
  std::string targets;                  ///< Comma-separated; empty: KERNWRIGHT_TARGET.
  bool for_device = false;              ///< The present devices in place of targets.
  std::string template_folder;          ///< Laid over the built-in templates; empty: those alone.
  std::string write_list;               ///< Write the requests to this launch list and compile nothing.
  int jobs = 0;                         ///< 0: what the machine bears.
  bool no_fallbacks = false;
};

ExitCode warm(const WarmWords& words);

}  // namespace kernwright::tool
