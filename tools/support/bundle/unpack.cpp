#include "support/bundle/unpack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "store/compiler_record.hpp"
#include "store/store_paths.hpp"
#include "support/bundle/bundle_reader.hpp"
#include "support/bundle/input_file.hpp"

namespace kernwright::support {
namespace {

/// Publishes members that the store has not, and counts.
class Merge {
 public:
  static Result<Merge> into(Store& store, FileSystem& files) {
    auto listed = store.compilers();
    if (!listed) return fail(std::move(listed.error()));
    return Merge(store, files, std::move(*listed));
  }

  Result<> add(const MemberName& name, const CompilerIdentity& compiler) {
    // The store writes the record itself, before the first entry of the compiler.
    const bool listed = std::ranges::find(listed_, compiler) != listed_.end();
    const bool bad = !listed && files_->status(compiler_path(store_->folder(), name.key.hex()));
    count(unpacked.compilers, listed, bad);
    return {};
  }

  Result<> add(const MemberName& /*name*/, const Artifact& artifact) {
    const auto held = store_->read(artifact.key, artifact.request, artifact.compiler);
    const bool listed = std::ranges::find(listed_, artifact.compiler) != listed_.end();
    count(unpacked.entries, held.outcome == Store::Outcome::hit, held.outcome == Store::Outcome::bad);
    // An entry whose compiler the store does not list is written again, which lists it.
    if (held.outcome == Store::Outcome::hit && listed) return {};
    if (auto published = store_->publish(artifact); !published) return published;
    if (!listed) listed_.push_back(artifact.compiler);
    return {};
  }

  Result<> add(const MemberName& name, const Fit& fit) {
    std::string problem;
    const FitKey key{name.key};
    const bool held = store_->read_fit(key, &problem).has_value();
    count(unpacked.fits, held, !problem.empty());
    return held ? Result<>() : store_->publish_fit(key, fit);
  }

  Unpacked unpacked;

 private:
  Merge(Store& store, FileSystem& files, std::vector<CompilerIdentity> listed)
      : store_(&store), files_(&files), listed_(std::move(listed)) {}

  static void count(MergeCount& counts, bool present, bool bad) {
    if (present) {
      ++counts.present;
    } else {
      ++(bad ? counts.replaced : counts.added);
    }
  }

  Store* store_;
  FileSystem* files_;
  std::vector<CompilerIdentity> listed_;  ///< Compilers that the store lists.
};

/// The digests of all members, once the last one was verified.
Result<std::vector<EntryKey>> check(InputFile& file) {
  auto source = file.from_start();
  if (!source) return fail(std::move(source.error()));
  std::vector<EntryKey> digests;
  const auto read = read_bundle(std::move(*source), [&](const BundleMember& member) -> Result<> {
    digests.push_back(member.digest);
    return {};
  });
  if (!read) return fail(Error(read.error()));
  return digests;
}

/// The store's error. A folder that cannot be made is no word of the caller's that is off, though the system calls it not found.
Error not_merged(Error error, const MemberName& name) {
  if (error.code == ErrorCode::not_found || error.code == ErrorCode::malformed) error.code = ErrorCode::io;
  return std::move(error).within(fmt::format("merging {}", text_of(name)));
}

/// Reads the file a second time, so that no more than one entry is in memory at once; what was checked must be what is merged.
Result<Unpacked> merge(InputFile& file, const std::vector<EntryKey>& digests, Merge merged) {
  const auto changed = [] { return fail(ErrorCode::io, "the bundle changed while it was read; unpack it again"); };
  auto source = file.from_start();
  if (!source) return fail(std::move(source.error()));
  std::size_t number = 0;
  auto contents = read_bundle(std::move(*source), [&](const BundleMember& member) -> Result<> {
    if (number >= digests.size() || member.digest != digests[number]) return changed();
    ++number;
    auto added = std::visit([&](const auto& value) { return merged.add(member.name, value); }, member.value);
    return added ? added : fail(not_merged(std::move(added.error()), member.name));
  });
  if (!contents && contents.error().code == ErrorCode::malformed) return changed();
  if (!contents) return fail(std::move(contents.error()));
  merged.unpacked.contents = std::move(*contents);
  return std::move(merged.unpacked);
}

}  // namespace

Result<Unpacked> unpack_bundle(const std::filesystem::path& file, Store& store, FileSystem& files, std::shared_ptr<PosixCalls> calls) {
  auto input = InputFile::open(file, std::move(calls));
  if (!input) return fail(std::move(input.error()));
  const auto digests = check(*input);
  if (!digests) {
    if (digests.error().code != ErrorCode::malformed) return fail(Error(digests.error()));
    return fail(ErrorCode::malformed, fmt::format("'{}' is refused, and nothing was written: {}", file.native(), digests.error().message));
  }
  auto merged = Merge::into(store, files);
  if (!merged) return fail(std::move(merged.error()));
  return merge(*input, *digests, std::move(*merged));
}

}  // namespace kernwright::support
