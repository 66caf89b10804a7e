// Counts what the calling thread allocates and locks, by standing in front of the C library's functions. Not in sanitizer builds, which
// stand there themselves.
#pragma once

#include <cstdint>

namespace kernwright::test {

struct CallCounts {
  std::uint64_t allocations = 0;  ///< malloc, calloc, realloc, aligned_alloc, posix_memalign, and so every operator new.
  std::uint64_t locks = 0;        ///< pthread mutexes and reader-writer locks, tried ones too.
};

/// Whether this build counts at all.
bool counts_calls() noexcept;
/// Of the calling thread, since it started.
CallCounts call_counts() noexcept;

}  // namespace kernwright::test
