// kernwright trace
#pragma once

#include <string>

#include "console.hpp"

namespace kernwright::tool {

struct TraceOptions {
  OutputOptions output;
  std::string file;
  std::string target;  ///< Empty: KERNWRIGHT_TARGET, else auto.
};
ExitCode trace(const TraceOptions& options);

}  // namespace kernwright::tool
