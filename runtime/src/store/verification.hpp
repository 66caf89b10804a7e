// Looks at every file of a store and names what is not as it should be.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "platform/file_system.hpp"
#include "store/store.hpp"

namespace kernwright {

enum class Fault : std::uint8_t {
  bad_entry,          ///< Counts as a miss and is replaced when it is next needed.
  bad_fit,            ///< Ignored.
  bad_compiler,       ///< Ignored, so that a process without a compiler does not find its entries.
  unlisted_compiler,  ///< An entry that a process without a compiler does not find.
  rights,             ///< Another user could change what is loaded.
  unreadable,         ///< A folder that cannot be listed, or something else in its place.
  // What follows harms nobody.
  leftover,    ///< find_leftovers()
  stale_fit,   ///< A fit that is passed over; verify_store() cannot tell, those who know the templates can.
  link,        ///< It is read, but never evicted.
  unexpected,  ///< Not a store's file.
};
std::string_view to_string(Fault fault) noexcept;  ///< "bad entry", "leftover", …
bool is_bad(Fault fault) noexcept;

struct Finding {
  Fault fault = Fault::unexpected;
  std::filesystem::path path;  ///< Relative to the store, "." for the store itself.
  std::string key;             ///< Of the entry or record; empty where it is about none.
  std::string problem;
  std::int64_t age_seconds = 0;  ///< Of a leftover.
};

struct Verification {
  std::size_t entries = 0, fits = 0, compilers = 0;  ///< How many were looked at, bad ones included.
  std::vector<Finding> findings;                     ///< Entries in order of key, then the rest in order of path.
  [[nodiscard]] std::size_t bad() const;
};

/// Reads every entry, fit and compiler record, and looks at every name and its rights; changes nothing. Where the store is shared
/// (StoreSettings) rights are its users' affair. `io` only where the store's own folder cannot be listed; an absent store is as one that is
/// empty.
Result<Verification> verify_store(Store& store, FileSystem& files, std::int64_t now);

}  // namespace kernwright
