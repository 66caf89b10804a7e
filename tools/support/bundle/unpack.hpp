// Checks a bundle whole, then merges it into a store.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

#include "kernwright/result.hpp"
#include "platform/file_system.hpp"
#include "platform/posix_calls.hpp"
#include "store/store.hpp"
#include "support/bundle/manifest.hpp"

namespace kernwright::support {

struct MergeCount {
  std::size_t added = 0;
  std::size_t present = 0;   ///< The store had it, and keeps its own.
  std::size_t replaced = 0;  ///< The store's was bad.
};

struct Unpacked {
  BundleManifest contents;
  MergeCount entries, fits, compilers;
};

/// malformed where `file` is not a bundle or any part of it is wrong: then nothing at all was written, and the store's folder was not made
/// either. not_found, io: the file cannot be read, or the store not be written to; then what was merged before stays, each piece whole.
/// `files` is what the store writes through.
Result<Unpacked> unpack_bundle(const std::filesystem::path& file, Store& store, FileSystem& files, std::shared_ptr<PosixCalls> calls);

}  // namespace kernwright::support
