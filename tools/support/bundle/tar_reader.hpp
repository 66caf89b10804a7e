// Reads a tar archive through libarchive and accepts it only where it is, byte for byte, what TarWriter would have written.
//
// libarchive understands many dialects of tar and passes over what it need not understand: extension headers that rename a member, sparse
// maps, attributes, padding, whatever follows the end. So that none of it can be smuggled past the checks, the members that it reports are
// written once more by TarWriter, and the two streams are compared.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernwright/result.hpp"
#include "kernwright/units.hpp"
#include "support/bundle/byte_stream.hpp"

namespace kernwright::support {

struct TarMember {
  std::string name;
  Bytes size;
};

/// Only one thread of a process at a time: libarchive's tar reader counts inodes in a variable of its own.
class TarReader {
 public:
  /// `source` gives the archive without compression.
  explicit TarReader(ByteSource source);
  TarReader(TarReader&&) noexcept;
  TarReader& operator=(TarReader&&) noexcept;
  ~TarReader();

  /// The next member, whose header has been checked; nullopt at the end, once nothing follows it. malformed where the archive is anything
  /// that TarWriter does not write; the source's own error where it has one.
  Result<std::optional<TarMember>> next();
  /// All of the member that next() answered; to be called once for each. The caller has looked at its size before.
  Result<std::vector<std::byte>> content();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The name as a message shows it: printable ASCII as it is, every other byte as \xNN, long names cut.
std::string shown_name(std::string_view name);

}  // namespace kernwright::support
