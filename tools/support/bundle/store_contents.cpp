#include "support/bundle/store_contents.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "store/compiler_record.hpp"
#include "store/entry_format.hpp"
#include "store/fit.hpp"
#include "store/store_paths.hpp"

namespace kernwright::support {
namespace {

/// The names in `folder` that are keys with this ending.
Result<std::vector<MemberName>> keys_in(FileSystem& files, const std::filesystem::path& folder, MemberKind kind) {
  const auto names = files.list(folder);
  if (!names) return fail(Error(names.error()));
  std::vector<MemberName> keys;
  for (const std::string& name : *names) {
    const auto hex = key_of(name, kind == MemberKind::entry ? kEntryEnding : kRecordEnding);
    if (const auto key = hex ? parse_key(*hex) : std::nullopt) keys.push_back({kind, *key});
  }
  return keys;
}

Result<std::vector<MemberName>> entries_of(FileSystem& files, const std::filesystem::path& store) {
  const auto shards = files.list(entries_folder(store));
  if (!shards) return fail(Error(shards.error()));
  std::vector<MemberName> entries;
  for (const std::string& shard : *shards) {
    const auto folder = entries_folder(store) / shard;
    const auto status = files.status(folder);
    if (!is_shard(shard) || !status || !status->folder) continue;
    // Unlike a listing for people, a bundle must not miss what this user may not read.
    auto keys = keys_in(files, folder, MemberKind::entry);
    if (!keys) return keys;
    std::ranges::copy_if(*keys, std::back_inserter(entries), [&](const MemberName& name) { return name.key.hex().starts_with(shard); });
  }
  return entries;
}

bool wanted(const PackSource& source, std::string_view target) {
  return source.targets.empty() || std::ranges::any_of(source.targets, [&](const Target& each) { return each.name() == target; });
}

/// The text of the compiler's record, which must say the same when it is read: text that is not UTF-8 does not.
Result<std::string> record_of(const CompilerIdentity& compiler) {
  std::string record = write_compiler_record(compiler);
  const auto again = parse_compiler_record(record, "its compiler's record");
  if (!again) return fail(Error(again.error()));
  if (*again != compiler) return fail(ErrorCode::malformed, "its compiler's name, version or components are not UTF-8 text");
  return record;
}

/// Verifies the entry and writes down what it adds to the bundle.
Result<> add_entry(const PackSource& source, const MemberName& name, StoreContents& contents) {
  Artifact artifact;
  const auto bytes = read_entry(source.files, source.store, name, &artifact);
  if (!bytes) return fail(Error(bytes.error()));
  auto record = record_of(artifact.compiler);
  if (!record) return fail(std::move(record.error()));
  contents.targets_held.insert(artifact.request.target.name());
  if (!wanted(source, artifact.request.target.name())) return {};
  const auto key = parse_key(compiler_record_name(artifact.compiler));
  contents.records.emplace(text_of({MemberKind::compiler, *key}), std::move(*record));
  add_compiler(contents.manifest, artifact.compiler);
  add_target(contents.manifest, artifact.request.target.name());
  contents.entries.push_back(name);
  contents.entry_bytes = contents.entry_bytes + Bytes{bytes->size()};
  ++contents.manifest.entries;
  return {};
}

Result<> add_fit(const PackSource& source, const MemberName& name, StoreContents& contents) {
  const auto file = source.files.read(fit_path(source.store, name.key.hex()), kLargestRecord);
  if (!file) return fail(Error(file.error()));
  const auto fit = parse_fit(as_text(*file));
  if (!fit) return fail(Error(fit.error()));
  if (const auto target = Target::parse(fit->target); !target) return fail(Error(target.error()));
  if (!wanted(source, fit->target)) return {};
  contents.records.emplace(text_of(name), write_fit(*fit));
  add_target(contents.manifest, fit->target);
  ++contents.manifest.fits;
  return {};
}

/// A bundle that lacks a target that was asked for would be missed only where it is needed.
Result<> check_targets(const PackSource& source, const StoreContents& contents) {
  const auto& held = contents.targets_held;
  if (held.empty()) {
    return fail(ErrorCode::not_found,
                fmt::format("the store '{}' has no entry that can be packed; fill it with 'kernwright warm'", source.store.native()));
  }
  for (const Target& target : source.targets) {
    if (held.contains(target.name())) continue;
    return fail(ErrorCode::not_found,
                fmt::format("the store '{}' has no entry for {}, only for {}; 'kernwright warm --target {}' makes them",
                            source.store.native(), target.name(), fmt::join(held, ", "), target.name()));
  }
  return {};
}

}  // namespace

Result<std::vector<std::byte>> read_entry(FileSystem& files, const std::filesystem::path& store, const MemberName& name,
                                          Artifact* decoded) {
  auto bytes = files.read(entry_path(store, name.key.hex()), kLargestEntry);
  if (!bytes) return bytes;
  auto artifact = decode_entry(*bytes);
  if (!artifact) return fail(std::move(artifact.error()));
  if (artifact->key != name.key)
    return fail(ErrorCode::malformed, fmt::format("it holds the entry of another key, {}", artifact->key.hex()));
  if (decoded != nullptr) *decoded = std::move(*artifact);
  return bytes;
}

Result<StoreContents> read_store(const PackSource& source) {
  StoreContents contents;
  const auto add = [&](const Result<std::vector<MemberName>>& names, auto add_one) -> Result<> {
    if (!names) return fail(Error(names.error()));
    for (const MemberName& name : *names) {
      if (const Result<> added = add_one(source, name, contents); !added)
        contents.left_out.push_back({text_of(name), added.error().message});
    }
    return {};
  };
  if (auto added = add(entries_of(source.files, source.store), add_entry); !added) return fail(std::move(added.error()));
  if (auto added = add(keys_in(source.files, fits_folder(source.store), MemberKind::fit), add_fit); !added) {
    return fail(std::move(added.error()));
  }
  if (auto checked = check_targets(source, contents); !checked) {
    // Bad entries may be why nothing is left.
    for (const LeftOut& bad : contents.left_out) checked.error().message += fmt::format("\n  left out {}: {}", bad.name, bad.problem);
    return fail(std::move(checked.error()));
  }
  return contents;
}

}  // namespace kernwright::support
