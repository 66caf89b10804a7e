// kernwright cache ls, show, verify, prune, clear
#pragma once

#include <cstdint>
#include <string>

#include "console.hpp"
// The store as it lies on disk is no part of the library's public interface; the program looks into it as the library does.
#include "store/store.hpp"

namespace kernwright::tool {

/// What every cache command can be told.
struct CacheOptions {
  OutputOptions output;
  std::string store;  ///< This folder alone; empty: the stores of the environment, in the order in which a run asks them.
};

struct CacheListOptions : CacheOptions {
  std::string template_name;  ///< Only entries and fits of this template or family; empty: all.
  std::string target;         ///< Only of this target; empty: all.
};
/// Exit code 3 where a store could not be read; the others are listed all the same.
ExitCode cache_list(const CacheListOptions& options);

struct CacheShowOptions : CacheOptions {
  std::string key;  ///< An entry's name, or at least 4 of its first digits.
  enum class What : std::uint8_t { summary, source, log, ptx, sass } what = What::summary;
  std::string source;  ///< Only the stored source of this name; empty: all of them.
  std::string binary;  ///< Not empty: the file that the binary is written to.
};
ExitCode cache_show(const CacheShowOptions& options);

struct CacheVerifyOptions : CacheOptions {
  bool remove_bad = false;  ///< Bad entries, fits and compiler records of the writable store.
};
/// Exit code 1 where something is bad and was not removed.
ExitCode cache_verify(const CacheVerifyOptions& options);

struct CachePruneOptions : CacheOptions {
  std::string limit;             ///< A size; empty: none.
  std::string unused_for;        ///< A span of time; empty: none.
  std::string target;            ///< Entries and fits of this target leave; empty: none.
  bool other_compilers = false;  ///< Entries of other compilers than those that are here leave.
  bool leftovers = false;        ///< Only what killed processes left; the other rules remove that too.
  bool dry_run = false;
};
/// Works on the writable store.
ExitCode cache_prune(const CachePruneOptions& options);

/// Works on the writable store.
ExitCode cache_clear(const CacheOptions& options);

}  // namespace kernwright::tool
