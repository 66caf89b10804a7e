// Listing, showing and clearing: what people and tools use.
#include <fmt/format.h>

#include <algorithm>

#include "store/compiler_record.hpp"
#include "store/entry_format.hpp"
#include "store/store.hpp"
#include "store/store_paths.hpp"

namespace kernwright {
namespace {

constexpr std::size_t kFewestDigits = 4;
// A younger temporary file may be one that another process is still writing.
constexpr std::int64_t kLeftoverSeconds = 3600;

/// The keys of all entries by file name, sorted: shards and names are listed in order.
Result<std::vector<std::string>> entry_keys(FileSystem& files, const std::filesystem::path& store) {
  std::vector<std::string> keys;
  const auto shards = files.list(entries_folder(store));
  if (!shards) return fail(Error(shards.error()));
  for (const std::string& shard : *shards) {
    if (!is_shard(shard)) continue;
    const auto names = files.list(entries_folder(store) / shard);
    if (!names) continue;  // a file in a shard's place, or a folder that may not be read: nothing that can be listed
    for (const std::string& name : *names) {
      if (auto key = key_of(name, kEntryEnding); key && key->starts_with(shard)) keys.push_back(std::move(*key));
    }
  }
  return keys;
}

Store::Listed listed(FileSystem& files, const std::filesystem::path& store, const std::string& key, EntryParts parts) {
  Store::Listed item;
  item.key = key;
  const auto path = entry_path(store, key);
  if (const auto status = files.status(path)) {
    item.size = status->size;
    item.modified_seconds = status->modified_seconds;
    item.used_seconds = status->modified_seconds;
  }
  if (const auto stamp = files.status(stamp_path(store, key))) item.used_seconds = std::max(item.used_seconds, stamp->modified_seconds);
  const auto file = files.read(path, kLargestEntry);
  if (!file) {
    item.problem = file.error().message;
    return item;
  }
  auto artifact = decode_entry(*file, parts);
  if (!artifact) {
    item.problem = artifact.error().message;
  } else if (artifact->key.hex() != key) {
    item.problem = fmt::format("it holds the entry of another key, {}", artifact->key.hex());
  } else {
    item.artifact = std::make_shared<const Artifact>(std::move(*artifact));
  }
  return item;
}

/// Removes the files of `folder` that `wanted` accepts, counting them; one that vanished meanwhile is not counted.
template <class Wanted>
Result<> remove_files(FileSystem& files, const std::filesystem::path& folder, Wanted wanted, std::size_t& count, Bytes& bytes) {
  const auto names = files.list(folder);
  if (!names) return fail(Error(names.error()));
  for (const std::string& name : *names) {
    const auto path = folder / name;
    const auto status = files.status(path);
    if (status && status->folder) continue;
    if (!wanted(name, status)) continue;
    if (auto removed = files.remove(path); !removed) {
      if (removed.error().code == ErrorCode::not_found) continue;
      return removed;
    }
    ++count;
    if (status && status->regular_file) bytes.count += status->size.count;
  }
  return {};
}

}  // namespace

Result<std::vector<Store::Listed>> Store::list() {
  const auto keys = entry_keys(*files_, folder_);
  if (!keys) return fail(Error(keys.error()));
  std::vector<Listed> items;
  for (const std::string& key : *keys) items.push_back(listed(*files_, folder_, key, EntryParts::without_binary));
  return items;
}

Result<Store::Listed> Store::show(const std::string& key) {
  if (key.size() < kFewestDigits || !is_hex(key)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' is no key: at least {} of its lower-case hex digits are needed", key.substr(0, 64), kFewestDigits));
  }
  auto keys = entry_keys(*files_, folder_);
  if (!keys) return fail(std::move(keys.error()));
  std::erase_if(*keys, [&](const std::string& each) { return !each.starts_with(key); });
  if (keys->empty())
    return fail(ErrorCode::not_found, fmt::format("the store '{}' has no entry whose key begins with {}", folder_.native(), key));
  if (keys->size() > 1) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} keys of the store '{}' begin with {}, the first two are {} and {}; give more digits", keys->size(),
                            folder_.native(), key, keys->at(0), keys->at(1)));
  }
  return listed(*files_, folder_, keys->front(), EntryParts::all);
}

Result<std::vector<std::pair<std::string, Fit>>> Store::list_fits() {
  std::vector<std::pair<std::string, Fit>> fits;
  const auto names = files_->list(fits_folder(folder_));
  if (!names) return fail(Error(names.error()));
  for (const std::string& name : *names) {
    const auto key = key_of(name, kRecordEnding);
    if (!key) continue;
    const auto file = files_->read(fit_path(folder_, *key), kLargestRecord);
    if (!file) continue;
    if (auto fit = parse_fit(as_text(*file))) fits.emplace_back(*key, std::move(*fit));
  }
  return fits;
}

Result<std::vector<CompilerIdentity>> Store::compilers() {
  std::vector<CompilerIdentity> compilers;
  const auto names = files_->list(compilers_folder(folder_));
  if (!names) return fail(Error(names.error()));
  for (const std::string& name : *names) {
    const auto key = key_of(name, kRecordEnding);
    if (!key) continue;
    const auto path = compiler_path(folder_, *key);
    const auto file = files_->read(path, kLargestRecord);
    if (!file) continue;
    auto compiler = parse_compiler_record(as_text(*file), path.native());
    // A record under another identity's name is damaged, as one that does not parse is.
    if (compiler && compiler_record_name(*compiler) == *key) compilers.push_back(std::move(*compiler));
  }
  return compilers;
}

Result<Store::Cleared> Store::clear() {
  if (auto writable = check_writable(); !writable) return fail(std::move(writable.error()));
  Cleared cleared;
  const std::int64_t now = clock_->unix_seconds();
  std::size_t others = 0;
  const auto is_leftover = [&](const std::string& name, const Result<FileSystem::Status>& status) {
    return is_temporary(name) && status && now - status->modified_seconds > kLeftoverSeconds;
  };
  const auto wanted_with = [&](std::string_view ending) {
    return [ending](const std::string& name, const Result<FileSystem::Status>&) { return key_of(name, ending).has_value(); };
  };
  const auto clear_folder = [&](const std::filesystem::path& folder, std::string_view ending, std::size_t& count) -> Result<> {
    if (auto removed = remove_files(*files_, folder, wanted_with(ending), count, cleared.bytes); !removed) return removed;
    return remove_files(*files_, folder, is_leftover, others, cleared.bytes);
  };
  std::size_t stamps = 0;
  const auto clear_shards = [&](const std::filesystem::path& parent, std::string_view ending, std::size_t& count) -> Result<> {
    const auto shards = files_->list(parent);
    if (!shards) return fail(Error(shards.error()));
    for (const std::string& shard : *shards) {
      const auto status = files_->status(parent / shard);
      if (!is_shard(shard) || !status || !status->folder) continue;
      if (auto removed = clear_folder(parent / shard, ending, count); !removed) return removed;
    }
    return {};
  };
  if (auto removed = clear_shards(entries_folder(folder_), kEntryEnding, cleared.entries); !removed)
    return fail(std::move(removed.error()));
  if (auto removed = clear_shards(stamps_folder(folder_), kStampEnding, stamps); !removed) return fail(std::move(removed.error()));
  if (auto removed = clear_folder(fits_folder(folder_), kRecordEnding, cleared.fits); !removed) return fail(std::move(removed.error()));
  if (auto removed = clear_folder(compilers_folder(folder_), kRecordEnding, others); !removed) return fail(std::move(removed.error()));
  return cleared;
}

}  // namespace kernwright
