// What the cache commands found, apart from how it is shown. Each has a text for people and a JSON document.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/store.hpp"
#include "store/verification.hpp"

namespace kernwright::tool {

struct CacheEntryReport {
  std::string store;  ///< The folder.
  std::string key;
  Bytes size, allocated, binary;
  std::int64_t modified_seconds = 0, used_seconds = 0;  ///< Since the epoch.
  std::string problem;                                  ///< Not empty: why the entry is bad; there is no artifact then.
  ArtifactPointer artifact;                             ///< With its binary or without.
  [[nodiscard]] bool is_plans() const { return artifact != nullptr && artifact->request.kind == ArtifactKind::plans; }
};
struct CacheFitReport {
  std::string key;
  Fit fit;
};
struct CacheCompilerReport {
  std::string record;  ///< Its record's name.
  CompilerIdentity identity;
  std::size_t entries = 0;  ///< Of the store, made by it.
};
struct CacheStoreReport {
  std::string folder;
  bool writable = false;
  bool exists = false;
  Bytes limit;          ///< Of the writable store; 0: none.
  std::string problem;  ///< Not empty: it could not be read.
  std::vector<CacheEntryReport> entries;
  std::vector<CacheFitReport> fits;
  std::vector<CacheCompilerReport> compilers;
  [[nodiscard]] std::size_t bad() const;
  [[nodiscard]] Bytes size() const;  ///< Of all entries.
};
struct CacheReport {
  std::int64_t now_seconds = 0;
  std::vector<CacheStoreReport> stores;
};

struct CacheShowReport {
  std::int64_t now_seconds = 0;
  CacheEntryReport entry;
  std::vector<std::string> also_in;  ///< Folders of later stores that hold the same key.
  std::string binary_file;           ///< Not empty: where the binary was written.
};

struct CacheVerifyStoreReport {
  std::string folder;
  bool writable = false;
  Verification verification;
  std::vector<std::string> removed;  ///< Paths in the store.
};
struct CacheVerifyReport {
  std::vector<CacheVerifyStoreReport> stores;
  [[nodiscard]] std::size_t bad() const;  ///< What was removed is not counted.
};

struct CachePruneReport {
  std::string store;
  bool dry_run = false;
  struct Entry {
    Store::Evicted evicted;
    std::string reason;
    std::string name;  ///< What it is: template, constants, tile, target.
  };
  std::vector<Entry> entries;          ///< What left, and what stayed because it was in use.
  std::vector<std::string> fits;       ///< Keys.
  std::vector<std::string> compilers;  ///< For people.
  std::vector<Leftover> leftovers;
  std::vector<std::string> notes;  ///< What a rule left alone, and why.
  std::size_t removed = 0, in_use = 0, left_count = 0;
  Bytes bytes, left;
  std::vector<std::string> left_alone;
};

struct CacheClearReport {
  std::string store;
  Store::Cleared cleared;
  std::vector<std::string> left_alone;
};

/// Of an entry of this store.
CacheEntryReport entry_report(const Store& store, const Store::Listed& listed);

std::string text_of(const CacheReport& report);
std::string text_of(const CacheShowReport& report);
std::string text_of(const CacheVerifyReport& report);
std::string text_of(const CachePruneReport& report);
std::string text_of(const CacheClearReport& report);

std::string json_of(const CacheReport& report);
std::string json_of(const CacheShowReport& report);
std::string json_of(const CacheVerifyReport& report);
std::string json_of(const CachePruneReport& report);
std::string json_of(const CacheClearReport& report);

/// One part of an entry as a document: {"key", name: text}.
std::string json_of_part(const std::string& key, const std::string& name, const std::string& text);
/// {"key", "sources": [{"name", "content"}]}
std::string json_of_sources(const std::string& key, const std::vector<SourceFile>& sources);

}  // namespace kernwright::tool
