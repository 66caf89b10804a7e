// The stores that a cache command looks into.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cache.hpp"
// The store as it lies on disk is no part of the library's public interface; the program looks into it as the library does.
#include "store/store.hpp"

namespace kernwright::tool {

/// Opened as a run opens them; nothing is created.
struct CacheStores {
  Runtime runtime;
  std::vector<std::shared_ptr<Store>> all;  ///< In the order in which a run asks them, the writable one last.
  std::shared_ptr<Store> writable;          ///< Null: there is none.

  /// The read-only ones' folders: what a command that changes a store leaves alone.
  [[nodiscard]] std::vector<std::string> left_alone() const;
};

/// The runtime's options for a cache command. invalid_argument where --store names no folder.
Result<RuntimeOptions> store_options(const CacheOptions& options);

/// The same errors; unsupported where the environment gives no store at all.
Result<CacheStores> open_stores(const CacheOptions& options);

/// The same for a command that changes the writable store. unsupported where there is none.
Result<CacheStores> open_writable_store(const CacheOptions& options);

}  // namespace kernwright::tool
