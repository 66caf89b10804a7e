// Writes a store's artifacts, fits and compilers as one file that can be carried to another machine.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kernwright/result.hpp"
#include "kernwright/target.hpp"
#include "kernwright/units.hpp"
#include "platform/file_system.hpp"
#include "platform/posix_calls.hpp"
#include "support/bundle/limits.hpp"
#include "support/bundle/manifest.hpp"

namespace kernwright::support {

/// A store's file that is not fit to be packed.
struct LeftOut {
  std::string name;  ///< In the store's folder.
  std::string problem;
};

struct Packed {
  BundleManifest contents;
  Bytes size;  ///< Of the bundle's file.
  std::vector<LeftOut> left_out;
};

struct PackSource {
  FileSystem& files;
  std::filesystem::path store;
  std::vector<Target> targets;  ///< Empty: all.
};

/// Packs every entry that verifies, of the targets asked for, the compilers that these entries name, and the fits of these targets. Equal
/// stores give equal bytes; nothing of the machine goes in. `file` appears whole or not at all, and replaces a file that is there.
/// not_found where an asked target has no entry, or the store none at all; io where the store cannot be read, changes meanwhile, or the
/// file cannot be written; invalid_argument where it would pass a bundle's limits.
Result<Packed> pack_bundle(const PackSource& source, const std::filesystem::path& file, const std::shared_ptr<PosixCalls>& calls,
                           const BundleLimits& limits = {});

}  // namespace kernwright::support
