// kernwright cache pack, unpack
#pragma once

#include <string>

#include "cache.hpp"

namespace kernwright::tool {

struct CachePackOptions : CacheOptions {
  std::string file;
  std::string targets;  ///< Comma-separated; empty: all.
};
/// The writable store, or the one that --store names. Exit code 1 where a bad entry or fit was left out.
ExitCode cache_pack(const CachePackOptions& options);

struct CacheUnpackOptions : CacheOptions {
  std::string file;
};
/// Into the writable store.
ExitCode cache_unpack(const CacheUnpackOptions& options);

}  // namespace kernwright::tool
