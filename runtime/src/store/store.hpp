// One directory of artifacts, fits and the list of compilers they were built with.
//
//   entries/<first two hex digits>/<32 hex digits>.kwe    one artifact, self-describing and checksummed (store/entry_format.hpp)
//   fits/<32 hex digits>.toml                             one fit (store/fit.hpp)
//   compilers/<32 hex digits>.toml                        one compiler
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "artifact.hpp"
#include "platform/clock.hpp"
#include "platform/file_system.hpp"
#include "store/fit.hpp"

namespace kernwright {

/// Thread-safe; several processes may use one folder. Nothing is created before the first write.
class Store {
 public:
  Store(std::filesystem::path folder, std::shared_ptr<FileSystem> files, std::shared_ptr<Clock> clock);

  enum class Outcome : std::uint8_t { hit, miss, bad };
  struct Lookup {
    Outcome outcome = Outcome::miss;
    ArtifactPointer artifact;  ///< On a hit.
    std::string problem;       ///< Why an entry is bad: it counts as a miss and is replaced by the next publish.
  };
  /// Verifies checksum, version and every key field against the request before anything else is believed.
  Lookup read(const EntryKey& key, const BuildRequest& request, const CompilerIdentity& compiler);
  Result<> publish(const Artifact& artifact);

  /// nullopt: none, or unreadable (then `problem` says why).
  std::optional<Fit> read_fit(const FitKey& key, std::string* problem);
  Result<> publish_fit(const FitKey& key, const Fit& fit);

  struct Listed {
    std::string key;  ///< From the file's name.
    Bytes size;
    std::int64_t modified_seconds = 0;
    ArtifactPointer artifact;  ///< Header fields, log and sources, the binary from show() only; null where the entry is bad.
    std::string problem;
  };
  /// Every entry, sorted by key; bad ones too. Reads and verifies each.
  Result<std::vector<Listed>> list();
  Result<Listed> show(const std::string& key);  ///< A unique prefix of at least 4 digits is enough.
  Result<std::vector<std::pair<std::string, Fit>>> list_fits();
  Result<std::vector<CompilerIdentity>> compilers();
  struct Cleared {
    std::size_t entries = 0;
    std::size_t fits = 0;
    Bytes bytes;
  };
  Result<Cleared> clear();  ///< Removes entries, fits, compilers and leftover temporary files, nothing else.

  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }

 private:
  std::filesystem::path folder_;
  std::shared_ptr<FileSystem> files_;
  std::shared_ptr<Clock> clock_;
};

/// The writable store's folder by the rules of docs/cache.md: the setting, KERNWRIGHT_CACHE_DIR, XDG_CACHE_HOME/kernwright,
/// HOME/.cache/kernwright, a per-user folder in TMPDIR; nullopt: memory only.
std::optional<std::filesystem::path> default_store_folder(const std::optional<std::filesystem::path>& setting);

}  // namespace kernwright
