#include "store_diagnosis.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "file_system_facts.hpp"
#include "platform/posix_calls.hpp"
#include "store/store_paths.hpp"
#include "support/format.hpp"

namespace kernwright::tool {
namespace {

namespace fs = std::filesystem;
using support::format_bytes;

constexpr Bytes kLittleSpace = mebibytes(64);  // A store of all default kernels takes a few MiB.
constexpr std::uint64_t kFewInodes = 1000;
constexpr std::size_t kMostHolders = 100;
constexpr const char* kElsewhere =
    "Give a folder of this user's on a disk with space in KERNWRIGHT_CACHE_DIR; runs work without it, compiling anew each time.";

/// The folder itself, or the nearest one above it that exists: where it would be made.
fs::path existing_part(const fs::path& folder) {
  std::error_code ignored;
  fs::path part = fs::absolute(folder, ignored);
  while (!fs::exists(fs::status(part, ignored)) && part.has_parent_path() && part != part.parent_path()) part = part.parent_path();
  return part;
}

void add(StoreDiagnosis& store, std::string what, std::string remedy) {
  store.problems.push_back({fmt::format("store {}: {}", store.folder, what), std::move(remedy)});
}

/// Whoever may write to the folder above can put another one in this one's place, unless the sticky bit keeps names their owners'.
void check_parent(const fs::path& folder, FileSystem& files, StoreDiagnosis& store) {
  const auto parent = files.status(folder.parent_path());
  if (!parent || (parent->mode & 0002U) == 0 || (parent->mode & 01000U) != 0) return;
  add(store,
      fmt::format("every user may write to the folder above it, {} (mode {:04o}), and so replace it", folder.parent_path().string(),
                  parent->mode),
      fmt::format("Take the right away (chmod o-w {}), or keep the store elsewhere.", folder.parent_path().string()));
}

/// A link is its owner's to lead elsewhere.
void check_link(const fs::path& folder, StoreDiagnosis& store) {
  struct stat link {};
  if (store.link_to.empty() || ::lstat(folder.c_str(), &link) != 0 || link.st_uid == ::geteuid() || link.st_uid == 0) return;
  add(store, fmt::format("its name is a link of user {}, who can lead it elsewhere", link.st_uid),
      fmt::format("Name {} itself, or make the link anew.", store.link_to));
}

void check_rights(const fs::path& folder, FileSystem& files, StoreDiagnosis& store) {
  if (store.shared) return;
  check_link(folder, store);
  const bool others = (store.mode & 0002U) != 0;
  if (others || (store.mode & 0020U) != 0) {
    add(store,
        fmt::format("{} may write to it (mode {:04o}), and so decide what code is loaded from it", others ? "every user" : "its group",
                    store.mode),
        fmt::format("chmod go-w {}; or, where all who can write to it are trusted, KERNWRIGHT_CACHE_SHARED=1.", folder.string()));
  }
  check_parent(folder, files, store);
  if (store.own || store.read_only) return;
  add(store, fmt::format("it belongs to user {}, this is user {}, so it is read but not written to", store.owner, ::geteuid()),
      "Name a folder of your own in KERNWRIGHT_CACHE_DIR, or say with KERNWRIGHT_CACHE_SHARED=1 that its users trust each other.");
}

void check_space(const fs::path& part, StoreDiagnosis& store) {
  const auto facts = file_system_facts(part);
  if (!facts) return;
  store.file_system = facts->type;
  store.free = facts->free;
  store.free_inodes = facts->free_inodes;
  if (store.read_only) return;
  if (store.free < kLittleSpace) add(store, fmt::format("its disk has only {} free", format_bytes(store.free)), kElsewhere);
  if (store.free_inodes && *store.free_inodes < kFewInodes) {
    add(store, fmt::format("only {} more files can be made on its disk (inodes)", *store.free_inodes), kElsewhere);
  }
}

/// Takes a build lock twice on a file of its own: the second one must be refused, in words of the first.
bool locks_exclude(const fs::path& file, FileSystem& files, std::string& problem) {
  const std::string owner = fmt::format("process {}", ::getpid());
  const auto first = files.try_lock(file, 0, owner);
  if (!first) {
    problem = first.error().message;
    return false;
  }
  const auto second = files.try_lock(file, 0, owner);
  if (first->lock != nullptr && second && second->lock == nullptr) return true;
  problem = second ? "a lock that is held was given a second time" : second.error().message;
  return false;
}

/// Writes, locks and removes a file, as a run would.
void probe(const fs::path& folder, FileSystem& files, StoreDiagnosis& store) {
  // A leftover's name: were this process killed now, prune would remove it.
  const fs::path file = folder / fmt::format(".doctor.{}.tmp", ::getpid());
  store.probed = true;
  if (auto written = files.publish(file, as_bytes("probe")); !written) {
    store.writable = false;
    add(store, written.error().message, kElsewhere);
    return;
  }
  std::string problem;
  store.locks_work = locks_exclude(file, files, problem);
  if (!*store.locks_work) {
    add(store, "it has no locks: " + problem,
        "Processes that start together compile the same kernels; nothing else is lost. On NFS, mount it with a lock service (no nolock), "
        "or keep the store on a local disk.");
  }
  if (auto removed = files.remove(file); !removed) add(store, removed.error().message, kElsewhere);
}

void list_lock_holders(const fs::path& folder, StoreDiagnosis& store) {
  PosixCalls calls;
  const auto holders = lock_holders(calls, build_lock_path(folder), kMostHolders);
  if (!holders) return;  // the probe says whether locks work
  for (const LockHolder& each : *holders) store.lock_holders.push_back(each.holder.empty() ? "a process" : each.holder);
}

/// Counts what the entries are for and made by.
void look_inside(Store& opened, const std::vector<CompilerIdentity>& present, StoreDiagnosis& store) {
  const auto is_present = [&](const CompilerIdentity& compiler) { return std::ranges::find(present, compiler) != present.end(); };
  const auto entries = opened.list();
  const auto compilers = opened.compilers();
  const auto fits = opened.list_fits();
  for (const auto* error :
       {entries ? nullptr : &entries.error(), compilers ? nullptr : &compilers.error(), fits ? nullptr : &fits.error()}) {
    if (error == nullptr) continue;
    add(store, error->message, "Give this user the right to read it; until then all that is in it is a miss.");
    return;
  }
  store.fits = fits->size();
  for (const CompilerIdentity& each : *compilers) store.by_compiler.push_back({each, 0, is_present(each)});
  for (const Store::Listed& entry : *entries) {
    ++store.entries;
    store.used = store.used + entry.allocated;
    if (entry.artifact == nullptr) {
      ++store.bad;
      continue;
    }
    ++store.by_target[entry.artifact->request.target.name()];
    auto found = std::ranges::find(store.by_compiler, entry.artifact->compiler, &StoreDiagnosis::ByCompiler::compiler);
    if (found == store.by_compiler.end()) {
      found = store.by_compiler.insert(found, {entry.artifact->compiler, 0, is_present(entry.artifact->compiler)});
    }
    ++found->entries;
  }
  if (store.bad == 0) return;
  add(store, fmt::format("{} of its {} entries {} bad", store.bad, store.entries, store.bad == 1 ? "is" : "are"),
      store.read_only
          ? "kernwright cache verify names them. They are passed over; make the store again from a bundle or with warm."
          : "kernwright cache verify names them; each is replaced when it is next needed, and verify --remove-bad removes them.");
}

void diagnose_existing(Store& opened, const fs::path& folder, FileSystem& files, StoreDiagnosis& store) {
  check_rights(folder, files, store);
  const bool may_write = store.own || store.shared;
  if (!store.read_only && may_write && store.writable) probe(folder, files, store);
  store.writable = store.writable && (may_write || store.read_only);
  list_lock_holders(opened.folder(), store);
}

}  // namespace

StoreDiagnosis diagnose_store(Store& opened, FileSystem& files, const std::vector<CompilerIdentity>& present) {
  StoreDiagnosis store;
  const fs::path& folder = opened.folder();
  store.folder = folder.string();
  store.read_only = opened.settings().access == StoreAccess::read_only;
  store.shared = opened.settings().shared;
  store.limit = opened.settings().limit;
  std::error_code ignored;
  store.exists = fs::exists(folder, ignored);
  if (fs::is_symlink(folder, ignored)) store.link_to = fs::read_symlink(folder, ignored).string();
  if (store.read_only && !store.exists) {
    add(store, "it is named in KERNWRIGHT_CACHE_STORES and not there, so that all its entries are misses",
        "Correct the name, or mount it.");
    return store;
  }
  const fs::path part = existing_part(folder);
  const auto status = files.status(part);
  if (!status || !status->folder) {
    add(store, status ? fmt::format("{} is not a folder", part.string()) : status.error().message, kElsewhere);
    return store;
  }
  store.owner = status->owner;
  store.mode = status->mode;
  store.own = status->owner == ::geteuid();
  check_space(part, store);
  store.writable = ::access(part.c_str(), W_OK | X_OK) == 0;
  if (!store.writable && !store.read_only) {
    add(store, fmt::format("{} cannot be written to: {}", part.string(), std::generic_category().message(errno)), kElsewhere);
  }
  if (!store.exists) return store;
  diagnose_existing(opened, folder, files, store);
  look_inside(opened, present, store);
  return store;
}

}  // namespace kernwright::tool
