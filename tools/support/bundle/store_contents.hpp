// What of a store can go into a bundle: found and verified, one file in memory at a time.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "artifact.hpp"
#include "kernwright/result.hpp"
#include "platform/file_system.hpp"
#include "support/bundle/manifest.hpp"
#include "support/bundle/member_name.hpp"
#include "support/bundle/pack.hpp"

namespace kernwright::support {

struct StoreContents {
  BundleManifest manifest;
  std::map<std::string, std::string> records;  ///< Member name to text: compilers, then fits.
  std::vector<MemberName> entries;             ///< Sorted.
  Bytes entry_bytes;
  std::set<std::string> targets_held;  ///< Of all whole entries, those that are not asked for as well.
  std::vector<LeftOut> left_out;
};

/// Reads and verifies every entry and fit. Files that no store has under these names are passed over.
Result<StoreContents> read_store(const PackSource& source);

/// The bytes of the entry, verified. malformed where it is not what its name says, io or not_found where it cannot be read.
Result<std::vector<std::byte>> read_entry(FileSystem& files, const std::filesystem::path& store, const MemberName& name, Artifact* decoded);

}  // namespace kernwright::support
