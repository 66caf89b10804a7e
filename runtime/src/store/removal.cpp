// Emptying a store, and removing what is bad or left over in it: what people ask for.
#include <fmt/format.h>

#include <algorithm>

#include "store/store.hpp"
#include "store/store_paths.hpp"

namespace kernwright {
namespace {

/// Removes the files of `folder` that have a key's name with this ending, counting them; one that vanished meanwhile is not counted.
Result<> remove_files(FileSystem& files, const std::filesystem::path& folder, std::string_view ending, std::size_t& count, Bytes& bytes) {
  const auto names = files.list(folder);
  if (!names) return fail(Error(names.error()));
  for (const std::string& name : *names) {
    if (!key_of(name, ending)) continue;
    const auto path = folder / name;
    const auto status = files.status(path);
    if (status && status->folder) continue;
    if (auto removed = files.remove(path); !removed) {
      if (removed.error().code == ErrorCode::not_found) continue;
      return removed;
    }
    ++count;
    if (status && status->regular_file) bytes.count += status->size.count;
  }
  return {};
}

/// The same for each folder of entries or stamps.
Result<> remove_in_shards(FileSystem& files, const std::filesystem::path& parent, std::string_view ending, std::size_t& count,
                          Bytes& bytes) {
  const auto shards = files.list(parent);
  if (!shards) return fail(Error(shards.error()));
  for (const std::string& shard : *shards) {
    const auto status = files.status(parent / shard);
    if (!is_shard(shard) || !status || !status->folder) continue;
    if (auto removed = remove_files(files, parent / shard, ending, count, bytes); !removed) return removed;
  }
  return {};
}

Result<> unless_gone(Result<> removed) {
  if (removed || removed.error().code == ErrorCode::not_found) return {};
  return removed;
}

}  // namespace

Result<Store::Cleared> Store::clear() {
  if (auto writable = check_writable(); !writable) return fail(std::move(writable.error()));
  Cleared cleared;
  std::size_t others = 0;
  if (auto removed = remove_in_shards(*files_, entries_folder(folder_), kEntryEnding, cleared.entries, cleared.bytes); !removed) {
    return fail(std::move(removed.error()));
  }
  if (auto removed = remove_in_shards(*files_, stamps_folder(folder_), kStampEnding, others, cleared.bytes); !removed) {
    return fail(std::move(removed.error()));
  }
  if (auto removed = remove_files(*files_, fits_folder(folder_), kRecordEnding, cleared.fits, cleared.bytes); !removed) {
    return fail(std::move(removed.error()));
  }
  if (auto removed = remove_files(*files_, compilers_folder(folder_), kRecordEnding, others, cleared.bytes); !removed) {
    return fail(std::move(removed.error()));
  }
  const auto leftovers = remove_leftovers(false);
  if (!leftovers) return fail(Error(leftovers.error()));
  for (const Leftover& each : *leftovers) cleared.bytes.count += each.size.count;
  return cleared;
}

Result<std::vector<Leftover>> Store::remove_leftovers(bool dry_run) {
  if (auto writable = check_writable(); !writable) return fail(std::move(writable.error()));
  auto found = find_leftovers(*files_, folder_, clock_->unix_seconds());
  if (!found || dry_run) return found;
  for (const Leftover& each : *found) {
    if (auto removed = unless_gone(files_->remove(folder_ / each.path)); !removed) return fail(std::move(removed.error()));
  }
  return found;
}

Result<bool> Store::remove_bad_entry(const std::string& key) {
  if (auto writable = check_writable(); !writable) return fail(std::move(writable.error()));
  const auto entry = show(key);
  if (!entry) return entry.error().code == ErrorCode::not_found ? Result<bool>(true) : fail(Error(entry.error()));
  if (entry->problem.empty()) return false;
  if (auto removed = unless_gone(files_->remove(entry_path(folder_, key))); !removed) return fail(std::move(removed.error()));
  static_cast<void>(files_->remove(stamp_path(folder_, key)));
  return true;
}

Result<> Store::remove_fit(const std::string& key) {
  if (auto writable = check_writable(); !writable) return writable;
  return unless_gone(files_->remove(fit_path(folder_, key)));
}

Result<> Store::remove_compiler(const std::string& name) {
  if (auto writable = check_writable(); !writable) return writable;
  return unless_gone(files_->remove(compiler_path(folder_, name)));
}

}  // namespace kernwright
