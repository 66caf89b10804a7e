// Listing and showing: what people and tools use.
#include <fmt/format.h>

#include <algorithm>

#include "store/compiler_record.hpp"
#include "store/entry_format.hpp"
#include "store/store.hpp"
#include "store/store_paths.hpp"

namespace kernwright {
namespace {

constexpr std::size_t kFewestDigits = 4;

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

Store::Listed listed(FileSystem& files, const std::filesystem::path& store, const std::string& key, bool with_binary) {
  Store::Listed item;
  item.key = key;
  const auto path = entry_path(store, key);
  if (const auto status = files.status(path)) {
    item.size = status->size;
    item.allocated = status->allocated;
    item.modified_seconds = status->modified_seconds;
    item.used_seconds = status->modified_seconds;
  }
  if (const auto stamp = files.status(stamp_path(store, key))) item.used_seconds = std::max(item.used_seconds, stamp->modified_seconds);
  const auto file = files.read(path, kLargestEntry);
  if (!file) {
    item.problem = file.error().message;
    return item;
  }
  auto artifact = decode_entry(*file);
  if (!artifact) {
    item.problem = artifact.error().message;
  } else if (artifact->key.hex() != key) {
    item.problem = fmt::format("it holds the entry of another key, {}", artifact->key.hex());
  } else {
    item.binary = {artifact->binary.size()};
    // A list of all entries must not hold all binaries.
    if (!with_binary) std::vector<std::byte>().swap(artifact->binary);
    item.artifact = std::make_shared<const Artifact>(std::move(*artifact));
  }
  return item;
}

}  // namespace

Result<std::vector<Store::Listed>> Store::list() {
  const auto keys = entry_keys(*files_, folder_);
  if (!keys) return fail(Error(keys.error()));
  std::vector<Listed> items;
  for (const std::string& key : *keys) items.push_back(listed(*files_, folder_, key, false));
  return items;
}

Result<std::vector<std::string>> Store::keys(const std::string& digits) {
  if (digits.size() < kFewestDigits || !is_hex(digits)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' is no key: at least {} of its lower-case hex digits are needed", digits.substr(0, 64), kFewestDigits));
  }
  auto keys = entry_keys(*files_, folder_);
  if (!keys) return keys;
  std::erase_if(*keys, [&](const std::string& each) { return !each.starts_with(digits); });
  return keys;
}

Result<Store::Listed> Store::show(const std::string& key) {
  const auto keys = this->keys(key);
  if (!keys) return fail(Error(keys.error()));
  if (keys->empty())
    return fail(ErrorCode::not_found, fmt::format("the store '{}' has no entry whose key begins with {}", folder_.native(), key));
  if (keys->size() > 1) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} keys of the store '{}' begin with {}, the first two are {} and {}; give more digits", keys->size(),
                            folder_.native(), key, keys->at(0), keys->at(1)));
  }
  return listed(*files_, folder_, keys->front(), true);
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

}  // namespace kernwright
