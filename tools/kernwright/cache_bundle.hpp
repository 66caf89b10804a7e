// kernwright cache pack, unpack
#pragma once

#include <string>

#include "console.hpp"

namespace kernwright::tool {

/// `targets`: comma-separated, empty for all. Exit code 1 where a bad entry or fit was left out.
ExitCode cache_pack(const OutputOptions& output, const std::string& file, const std::string& targets);
ExitCode cache_unpack(const OutputOptions& output, const std::string& file);

}  // namespace kernwright::tool
