// Reading and publishing: what prepare uses.
#include "store/store.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "store/compiler_record.hpp"
#include "store/entry_format.hpp"
#include "store/store_paths.hpp"

namespace kernwright {
namespace {

constexpr unsigned kFolderMode = 0700;
constexpr int kMostDisplaced = 100;

/// A folder of someone else's is not written to: its owner could change what this user then loads.
Result<> check_owner(FileSystem& files, const std::filesystem::path& folder) {
  const auto status = files.status(folder);
  if (!status) return status.error().code == ErrorCode::not_found ? Result<>{} : fail(Error(status.error()));
  const std::uint32_t user = ::geteuid();
  if (status->owner == user) return {};
  return fail(ErrorCode::io,
              fmt::format("the store '{}' belongs to user {}, this process runs as user {}, so it is not written to; name a folder of your "
                          "own in KERNWRIGHT_CACHE_DIR",
                          folder.native(), status->owner, user));
}

/// Frees the name of a file where a folder stands in its place: an empty folder is removed, any other is renamed aside and kept.
Result<> displace_folder(FileSystem& files, const std::filesystem::path& path) {
  if (files.remove(path)) return {};
  for (int number = 1; number <= kMostDisplaced; ++number) {
    std::filesystem::path aside = path;
    aside += fmt::format(".displaced-{}", number);
    if (files.status(aside)) continue;
    return files.rename(path, aside);
  }
  return fail(ErrorCode::io, fmt::format("a folder stands in the place of '{}', with {} displaced ones beside it; remove them",
                                         path.native(), kMostDisplaced));
}

Result<> publish_file(FileSystem& files, const std::filesystem::path& store, const std::filesystem::path& path,
                      std::span<const std::byte> bytes) {
  if (auto owned = check_owner(files, store); !owned) return owned;
  if (auto created = files.create_folders(path.parent_path(), kFolderMode); !created) return created;
  auto published = files.publish(path, bytes);
  if (published) return published;
  // Only a folder in the file's place is worth a second try: a rename replaces anything else.
  const auto status = files.status(path);
  if (!status || !status->folder) return published;
  if (auto freed = displace_folder(files, path); !freed) return freed;
  return files.publish(path, bytes);
}

}  // namespace

Store::Store(std::filesystem::path folder, std::shared_ptr<FileSystem> files, std::shared_ptr<Clock> clock)
    : folder_(std::move(folder)), files_(std::move(files)), clock_(std::move(clock)) {}

Store::Lookup Store::read(const EntryKey& key, const BuildRequest& request, const CompilerIdentity& compiler) {
  const auto path = entry_path(folder_, key.hex());
  const auto bad = [&](const std::string& reason) {
    return Lookup{Outcome::bad, nullptr, fmt::format("entry '{}' is not usable: {}", path.native(), reason)};
  };
  try {
    const auto file = files_->read(path, kLargestEntry);
    if (!file && file.error().code == ErrorCode::not_found) return {};
    if (!file) return bad(file.error().message);
    auto artifact = decode_entry_for(*file, {key, request, compiler});
    if (!artifact) return bad(artifact.error().message);
    return {Outcome::hit, std::make_shared<const Artifact>(std::move(*artifact)), {}};
  } catch (const std::exception& problem) {
    return bad(problem.what());  // out of memory: a miss, the caller compiles
  }
}

Result<> Store::publish(const Artifact& artifact) {
  const auto entry = encode_entry(artifact);
  if (!entry) return fail(Error(entry.error()));
  // The compiler first, so that a store never holds an entry of a compiler that it does not list.
  const std::string record = write_compiler_record(artifact.compiler);
  const auto record_path = compiler_path(folder_, compiler_record_name(artifact.compiler));
  const auto present = files_->read(record_path, kLargestRecord);
  if (!present || as_text(*present) != record) {
    if (auto published = publish_file(*files_, folder_, record_path, as_bytes(record)); !published) return published;
  }
  return publish_file(*files_, folder_, entry_path(folder_, artifact.key.hex()), *entry);
}

std::optional<Fit> Store::read_fit(const FitKey& key, std::string* problem) {
  const auto path = fit_path(folder_, key.hex());
  const auto unreadable = [&](const Error& error) {
    if (problem != nullptr) *problem = fmt::format("fit '{}' is not usable: {}", path.native(), error.message);
    return std::nullopt;
  };
  const auto file = files_->read(path, kLargestRecord);
  if (!file) {
    if (file.error().code == ErrorCode::not_found) return std::nullopt;
    return unreadable(file.error());
  }
  auto fit = parse_fit(as_text(*file));
  if (!fit) return unreadable(fit.error());
  return std::move(*fit);
}

Result<> Store::publish_fit(const FitKey& key, const Fit& fit) {
  return publish_file(*files_, folder_, fit_path(folder_, key.hex()), as_bytes(write_fit(fit)));
}

}  // namespace kernwright
