// kernwright tune paged-mla
#pragma once

#include <string>

#include "tune.hpp"

namespace kernwright::tool {

/// The words as they were given.
struct TunePagedMlaWords {
  TuneWords tune;
  std::string heads = "8,16,128";  ///< Numbers and ranges.
  std::string query_tokens = "1";  ///< Numbers and ranges.
  std::string shapes;              ///< Requests x tokens; empty: the device's default, as far as its memory holds them.
  int page_size = 64;
};
ExitCode tune_paged_mla(const TunePagedMlaWords& words);

}  // namespace kernwright::tool
