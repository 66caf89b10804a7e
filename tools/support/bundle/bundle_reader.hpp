// Reads a bundle from its first byte to its last and believes nothing in it that was not checked.
#pragma once

#include <functional>
#include <variant>

#include "artifact.hpp"
#include "kernwright/result.hpp"
#include "store/entry_format.hpp"
#include "store/fit.hpp"
#include "support/bundle/byte_stream.hpp"
#include "support/bundle/limits.hpp"
#include "support/bundle/manifest.hpp"
#include "support/bundle/member_name.hpp"

namespace kernwright::support {

/// A member that was verified; the manifest is none.
struct BundleMember {
  MemberName name;
  EntryKey digest;  ///< XXH3-128 of the member's bytes.
  std::variant<CompilerIdentity, Artifact, Fit> value;
};
/// An error ends the reading, and is what read_bundle() answers.
using BundleVisitor = std::function<Result<>(BundleMember&&)>;

/// Visits the members in the archive's order: compilers, entries, fits. `source` gives the bundle's file.
/// Only a reading that came to the end shows that the bundle is whole: a visitor must not act on a member before one did. malformed, with
/// the member and the reason, where the bundle is to be refused. Memory is bounded by a few times the largest entry.
Result<BundleManifest> read_bundle(ByteSource source, const BundleVisitor& visit, const BundleLimits& limits = {});

}  // namespace kernwright::support
