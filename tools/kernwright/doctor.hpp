// kernwright doctor
#pragma once

#include "console.hpp"

namespace kernwright::tool {

/// done where a run is possible on some target, unable where on none.
ExitCode doctor(const OutputOptions& output);

}  // namespace kernwright::tool
