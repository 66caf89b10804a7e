// One directory of artifacts, fits and the list of compilers they were built with.
//
//   entries/<first two hex digits>/<32 hex digits>.kwe    one artifact, self-describing and checksummed (store/entry_format.hpp)
//   stamps/<first two hex digits>/<32 hex digits>         empty; its modification time is when the entry was last used
//   fits/<32 hex digits>.toml                             one fit (store/fit.hpp)
//   compilers/<32 hex digits>.toml                        one compiler
//   builds.lock                                           locks of builds under way, one slot a key (store/build_lock.hpp)
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "artifact.hpp"
#include "platform/clock.hpp"
#include "platform/file_system.hpp"
#include "store/fit.hpp"
#include "store/leftovers.hpp"

namespace kernwright {

enum class StoreAccess : std::uint8_t {
  read_write,
  read_only,  ///< Nothing is written, no stamp and no lock either.
};

struct StoreSettings {
  StoreAccess access = StoreAccess::read_write;
  /// Whether other users' processes write here too: who owns the folder is then not asked, and folders get the umask's rights, not 0700.
  bool shared = false;
  Bytes limit{};  ///< Of all entries, in allocated blocks; 0: none. Publishing beyond it removes the least recently used.
};

/// Thread-safe; several processes may use one folder. Nothing is created before the first write.
class Store {
 public:
  Store(std::filesystem::path folder, std::shared_ptr<FileSystem> files, std::shared_ptr<Clock> clock, StoreSettings settings = {});

  enum class Outcome : std::uint8_t { hit, miss, bad };
  struct Lookup {
    Outcome outcome = Outcome::miss;
    ArtifactPointer artifact;  ///< On a hit.
    std::string problem;       ///< Why an entry is bad: it counts as a miss and is replaced by the next publish.
    bool unreadable = false;   ///< The system would not give it: the store is at fault, perhaps for every entry, and this one may be good.
  };
  /// Verifies checksum, version and every key field against the request before anything else is believed.
  Lookup read(const EntryKey& key, const BuildRequest& request, const CompilerIdentity& compiler);
  Result<> publish(const Artifact& artifact);
  /// `entry` is encode_entry() of an artifact with this key and compiler.
  Result<> publish_entry(const EntryKey& key, const CompilerIdentity& compiler, std::span<const std::byte> entry);

  /// Does not wait. `owner` is what others are told while they wait. Errors where the folder has no locks or cannot be written to.
  Result<FileSystem::LockAttempt> try_lock_build(const EntryKey& key, std::string_view owner);

  /// nullopt: none, or bad (then `problem` says why, and `unreadable` as in Lookup).
  std::optional<Fit> read_fit(const FitKey& key, std::string* problem, bool* unreadable = nullptr);
  Result<> publish_fit(const FitKey& key, const Fit& fit);

  struct Listed {
    std::string key;  ///< From the file's name.
    Bytes size;
    Bytes allocated;                    ///< The blocks that it takes on the disk: what a limit counts.
    std::int64_t modified_seconds = 0;  ///< When it was written, since the epoch.
    std::int64_t used_seconds = 0;      ///< When it was last read, as fine as an hour; modified_seconds where it never was.
    ArtifactPointer artifact;           ///< Header fields, log and sources, the binary from show() only; null where the entry is bad.
    Bytes binary;                       ///< The binary's size, whether it was read or not.
    std::string problem;
  };
  /// Every entry, sorted by key; bad ones too. Reads and verifies each.
  Result<std::vector<Listed>> list();
  Result<Listed> show(const std::string& key);  ///< A unique prefix of at least 4 digits is enough.
  /// The names of all entries that begin with these digits, sorted; nothing is read. invalid_argument where they are no digits of a key, or
  /// fewer than 4.
  Result<std::vector<std::string>> keys(const std::string& digits);
  Result<std::vector<std::pair<std::string, Fit>>> list_fits();
  Result<std::vector<CompilerIdentity>> compilers();
  struct Cleared {
    std::size_t entries = 0;
    std::size_t fits = 0;
    Bytes bytes;
  };
  /// An entry leaves where any of these says so.
  struct EvictionRules {
    std::optional<Bytes> limit{};                  ///< Of all entries, in allocated blocks: the least recently used leave until it holds.
    std::optional<std::int64_t> unused_seconds{};  ///< Those that were not used for so long.
    std::set<std::string> keys{};                  ///< These.
    std::string spared{};                          ///< But never this key's; empty: none.
    bool dry_run = false;                          ///< Only says what would leave; nobody is asked who reads it.
  };
  enum class EvictionReason : std::uint8_t { named, unused, limit };
  struct Evicted {
    std::string key;
    Bytes allocated;
    std::int64_t unused_seconds = 0;
    EvictionReason reason = EvictionReason::named;
    bool in_use = false;  ///< Somebody read it at that moment: it stays.
  };
  struct Eviction {
    std::size_t entries = 0;
    Bytes bytes;
    std::size_t in_use = 0;      ///< Entries that somebody read at that moment; they stay.
    std::size_t left_count = 0;  ///< How many remain.
    Bytes left;                  ///< What they take.
    std::vector<Evicted> items;  ///< What left, and what stayed because it was in use; the least recently used first.
  };
  Result<Eviction> evict(const EvictionRules& rules);
  /// Removes entries, the least recently used first, until all take at most `limit`, in allocated blocks; 0 bytes removes all.
  Result<Eviction> evict_to(Bytes limit);
  /// Removes entries that were not used for so long.
  Result<Eviction> evict_unused(std::int64_t seconds);
  Result<Cleared> clear();  ///< Removes entries, stamps, fits, compilers and leftovers, nothing else.

  /// Removes find_leftovers(), or only says what would leave.
  Result<std::vector<Leftover>> remove_leftovers(bool dry_run);
  /// Removes an entry that cannot be used, whatever stands in its place (a folder where it is empty). False where the entry is good by now:
  /// somebody replaced it. One that is replaced after it was looked at here is lost, which costs a compile.
  Result<bool> remove_bad_entry(const std::string& key);
  Result<> remove_fit(const std::string& key);
  /// The name is compiler_record_name()'s. A process that publishes with this compiler at the same moment can leave an entry whose compiler
  /// is not listed; verify_store() names such an entry.
  Result<> remove_compiler(const std::string& name);

  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
  [[nodiscard]] const StoreSettings& settings() const noexcept { return settings_; }

 private:
  Result<> check_writable();
  Result<> publish_file(const std::filesystem::path& path, std::span<const std::byte> bytes);
  void stamp(const EntryKey& key) noexcept;
  void keep_within_limit(const std::string& published);  ///< A key.

  std::filesystem::path folder_;
  std::shared_ptr<FileSystem> files_;
  std::shared_ptr<Clock> clock_;
  StoreSettings settings_;
  std::atomic<bool> own_{false};             ///< The folder was seen to be this user's.
  std::atomic<std::uint64_t> estimated_{0};  ///< What entries take; 0: not counted yet.
};

/// The writable store's folder by the rules of docs/cache.md: the setting, KERNWRIGHT_CACHE_DIR, XDG_CACHE_HOME/kernwright,
/// HOME/.cache/kernwright, a per-user folder in TMPDIR; nullopt: memory only.
std::optional<std::filesystem::path> default_store_folder(const std::optional<std::filesystem::path>& setting);

}  // namespace kernwright
