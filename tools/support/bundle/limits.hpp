// How large a bundle may be, checked while it is packed and again while it is read. An entry's and a record's own limits are the store's:
// kLargestEntry and kLargestRecord.
#pragma once

#include <cstddef>

#include "kernwright/units.hpp"

namespace kernwright::support {

struct BundleLimits {
  /// Of the archive before compression: 16 GiB. It bounds the time that reading takes; memory is bounded by one entry.
  Bytes archive = mebibytes(std::uint64_t{16} << 10);
  std::size_t members = 100'000;  ///< The manifest aside.
};

/// Of zstd's window, as a power of two: 8 MiB, which RFC 8878 asks every decoder to support.
inline constexpr int kWindowLog = 23;

}  // namespace kernwright::support
