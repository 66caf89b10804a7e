// What doctor says about one store: its folder, whether it can be read, written and locked, and what is in it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "platform/file_system.hpp"
#include "store/store.hpp"

namespace kernwright::tool {

struct Problem {
  std::string what;
  std::string remedy;
};

struct StoreDiagnosis {
  std::string folder;
  bool read_only = false;  ///< One of KERNWRIGHT_CACHE_STORES, never written to.
  bool shared = false;
  bool exists = false;
  std::string link_to;  ///< Not empty: the folder's name is a link, and where it leads.
  std::uint32_t owner = 0;
  unsigned mode = 0;
  bool own = false;                          ///< The folder, or the one it would be made in, is this user's.
  std::string file_system;                   ///< "ext4", "nfs", …
  Bytes free;                                ///< For this user.
  std::optional<std::uint64_t> free_inodes;  ///< Files that can still be made; empty where the file system does not count them.

  bool writable = false;                  ///< A write works, or, where the folder is not there yet, should.
  bool probed = false;                    ///< A file was written and a lock taken to know it; only in a folder that exists.
  std::optional<bool> locks_work;         ///< One process's build lock keeps another out. Empty: not probed.
  std::vector<std::string> lock_holders;  ///< Who builds into it at this moment.

  std::size_t entries = 0, bad = 0, fits = 0;
  Bytes used;   ///< By entries, in allocated blocks: what the limit counts.
  Bytes limit;  ///< 0: none, or a read-only store.
  std::map<std::string, std::size_t> by_target;
  struct ByCompiler {
    CompilerIdentity compiler;
    std::size_t entries = 0;
    bool present = false;  ///< The compiler that is here.
  };
  std::vector<ByCompiler> by_compiler;  ///< What the store lists, and what its entries name besides.
  std::vector<Problem> problems;
};

/// `present`: the compilers that are here. Writes one small file into a writable store's folder where that exists, and removes it; else
/// changes nothing.
StoreDiagnosis diagnose_store(Store& store, FileSystem& files, const std::vector<CompilerIdentity>& present);

}  // namespace kernwright::tool
