// The error of a miss where nothing can be compiled: what was looked for, where, and the command that would warm it.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "artifact.hpp"

namespace kernwright {

struct Miss {
  const BuildRequest& request;
  std::span<const CompilerIdentity> compilers;  ///< Whose entries would have counted.
  std::vector<std::filesystem::path> folders;   ///< The stores that were asked.
  bool sealed = false;
};

/// sealed_miss.
Error miss_error(const Miss& miss);

}  // namespace kernwright
