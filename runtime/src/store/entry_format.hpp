// One entry file: a compiled artifact that describes itself. docs/cache.md gives the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "artifact.hpp"
#include "kernwright/result.hpp"
#include "kernwright/units.hpp"

namespace kernwright {

inline constexpr std::uint32_t kEntryVersion = 1;
inline constexpr std::size_t kEntryPrefixBytes = 32;  ///< magic, version, header length, checksum
inline constexpr Bytes kLargestEntry = mebibytes(256);
inline constexpr Bytes kLargestClosure = mebibytes(64);  ///< Uncompressed.

/// The same artifact gives the same bytes. invalid_argument where the artifact is no entry: plans not one a tile, or above the limits.
Result<std::vector<std::byte>> encode_entry(const Artifact& artifact);

/// What an entry is compared with before it counts as a hit.
struct EntryExpectation {
  const EntryKey& key;
  const BuildRequest& request;
  const CompilerIdentity& compiler;
};

/// Checksum, version and every key field are verified, then the plans, resources and binary are read: log and sources are not.
/// malformed with the reason where the file is not such an entry or holds another one.
Result<Artifact> decode_entry_for(std::span<const std::byte> file, const EntryExpectation& expected);

/// Everything the file holds, log and sources included, after the same checks; the key has to be that of the fields.
Result<Artifact> decode_entry(std::span<const std::byte> file);

/// Rewrites the checksum over the bytes as they are; files shorter than the prefix are left alone. For tests that go behind the checksum.
void repair_entry_checksum(std::span<std::byte> file);

}  // namespace kernwright
