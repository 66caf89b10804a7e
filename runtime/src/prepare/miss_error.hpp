// The error of a miss where nothing can be compiled: what was looked for, where, and the command that would warm it.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "artifact.hpp"

namespace kernwright {

struct Miss {
  const BuildRequest& request;
  const std::optional<Tile>& asked;             ///< For plans: the tile that they were obtained for.
  std::span<const CompilerIdentity> compilers;  ///< Whose entries would have counted.
  std::vector<std::filesystem::path> folders;   ///< The stores that were asked.
  bool sealed = false;
  std::string absence;  ///< Unless sealed: why there is no compiler.
};

/// sealed_miss, or compiler_unavailable.
Error miss_error(const Miss& miss);

}  // namespace kernwright
