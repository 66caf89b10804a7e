// Reading and publishing: what prepare uses.
#include "store/store.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "store/compiler_record.hpp"
#include "store/entry_format.hpp"
#include "store/store_paths.hpp"

namespace kernwright {
namespace {

constexpr unsigned kPrivateFolder = 0700;
constexpr unsigned kSharedFolder = 0777;  // the umask decides
// A stamp as fine as this orders entries well enough, and a hit then costs one stat.
constexpr std::int64_t kStampSeconds = 3600;
// Two keys in one slot wait for each other now and then, which harms nobody.
constexpr std::uint32_t kLockSlots = 1U << 16;
constexpr int kMostDisplaced = 100;

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

}  // namespace

Store::Store(std::filesystem::path folder, std::shared_ptr<FileSystem> files, std::shared_ptr<Clock> clock, StoreSettings settings)
    : folder_(std::move(folder)), files_(std::move(files)), clock_(std::move(clock)), settings_(settings) {}

/// A folder of someone else's is not written to: its owner could change what this user then loads.
Result<> Store::check_writable() {
  if (settings_.access == StoreAccess::read_only) {
    return fail(ErrorCode::io, fmt::format("the store '{}' was opened for reading only", folder_.native()));
  }
  if (settings_.shared || own_.load(std::memory_order_relaxed)) return {};
  const auto status = files_->status(folder_);
  if (!status) return status.error().code == ErrorCode::not_found ? Result<>{} : fail(Error(status.error()));
  const std::uint32_t user = ::geteuid();
  if (status->owner == user) {
    own_.store(true, std::memory_order_relaxed);
    return {};
  }
  return fail(ErrorCode::io,
              fmt::format("the store '{}' belongs to user {}, this process runs as user {}, so it is not written to; name a folder of your "
                          "own in KERNWRIGHT_CACHE_DIR, or say with KERNWRIGHT_CACHE_SHARED=1 that its users trust each other",
                          folder_.native(), status->owner, user));
}

Result<> Store::publish_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  if (auto writable = check_writable(); !writable) return writable;
  const unsigned mode = settings_.shared ? kSharedFolder : kPrivateFolder;
  if (auto created = files_->create_folders(path.parent_path(), mode); !created) return created;
  auto published = files_->publish(path, bytes);
  if (published) return published;
  // Only a folder in the file's place is worth a second try: a rename replaces anything else.
  const auto status = files_->status(path);
  if (!status || !status->folder) return published;
  if (auto freed = displace_folder(*files_, path); !freed) return freed;
  return files_->publish(path, bytes);
}

/// Says that an entry was used. Whether it could be written down is not asked: it only orders what is evicted.
void Store::stamp(const EntryKey& key) noexcept {
  try {
    if (!check_writable()) return;
    const auto path = stamp_path(folder_, key.hex());
    const auto status = files_->status(path);
    if (status && clock_->unix_seconds() - status->modified_seconds < kStampSeconds) return;
    if (!status) static_cast<void>(files_->create_folders(path.parent_path(), settings_.shared ? kSharedFolder : kPrivateFolder));
    static_cast<void>(files_->touch(path));
  } catch (const std::exception&) {
    return;  // out of memory: as good as a stamp that could not be written
  }
}

Result<FileSystem::LockAttempt> Store::try_lock_build(const EntryKey& key, std::string_view owner) {
  if (auto writable = check_writable(); !writable) return fail(std::move(writable.error()));
  if (auto created = files_->create_folders(folder_, settings_.shared ? kSharedFolder : kPrivateFolder); !created) {
    return fail(std::move(created.error()));
  }
  std::uint32_t slot = 0;
  for (std::size_t i = 0; i < sizeof slot; ++i) slot = slot << 8U | std::to_integer<std::uint32_t>(key.bytes[i]);
  return files_->try_lock(build_lock_path(folder_), slot % kLockSlots, owner);
}

Store::Lookup Store::read(const EntryKey& key, const BuildRequest& request, const CompilerIdentity& compiler) {
  const auto path = entry_path(folder_, key.hex());
  const auto bad = [&](const std::string& reason) {
    return Lookup{Outcome::bad, nullptr, fmt::format("entry '{}' is not usable: {}", path.native(), reason), false};
  };
  try {
    const bool guarded = settings_.access == StoreAccess::read_write;
    const auto file = guarded ? files_->read_guarded(path, kLargestEntry) : files_->read(path, kLargestEntry);
    if (!file && file.error().code == ErrorCode::not_found) return {};
    if (!file) {
      Lookup lookup = bad(file.error().message);
      lookup.unreadable = file.error().code == ErrorCode::io;
      return lookup;
    }
    auto artifact = decode_entry_for(*file, {key, request, compiler});
    if (!artifact) return bad(artifact.error().message);
    if (guarded) stamp(key);
    return {Outcome::hit, std::make_shared<const Artifact>(std::move(*artifact)), {}, false};
  } catch (const std::exception& problem) {
    return bad(problem.what());  // out of memory: a miss, the caller compiles
  }
}

Result<> Store::publish(const Artifact& artifact) {
  const auto entry = encode_entry(artifact);
  if (!entry) return fail(Error(entry.error()));
  return publish_entry(artifact.key, artifact.compiler, *entry);
}

Result<> Store::publish_entry(const EntryKey& key, const CompilerIdentity& compiler, std::span<const std::byte> entry) {
  // The compiler first, so that a store never holds an entry of a compiler that it does not list.
  const std::string record = write_compiler_record(compiler);
  const auto record_path = compiler_path(folder_, compiler_record_name(compiler));
  const auto present = files_->read(record_path, kLargestRecord);
  if (!present || as_text(*present) != record) {
    if (auto published = publish_file(record_path, as_bytes(record)); !published) return published;
  }
  const auto path = entry_path(folder_, key.hex());
  if (auto published = publish_file(path, entry); !published) return published;
  keep_within_limit(key.hex());
  return {};
}

std::optional<Fit> Store::read_fit(const FitKey& key, std::string* problem, bool* unreadable) {
  const auto path = fit_path(folder_, key.hex());
  const auto bad = [&](const Error& error) {
    if (problem != nullptr) *problem = fmt::format("fit '{}' is not usable: {}", path.native(), error.message);
    if (unreadable != nullptr) *unreadable = error.code == ErrorCode::io;
    return std::nullopt;
  };
  const auto file = files_->read(path, kLargestRecord);
  if (!file) {
    if (file.error().code == ErrorCode::not_found) return std::nullopt;
    return bad(file.error());
  }
  auto fit = parse_fit(as_text(*file));
  if (!fit) return bad(fit.error());
  return std::move(*fit);
}

Result<> Store::publish_fit(const FitKey& key, const Fit& fit) {
  return publish_file(fit_path(folder_, key.hex()), as_bytes(write_fit(fit)));
}

}  // namespace kernwright
