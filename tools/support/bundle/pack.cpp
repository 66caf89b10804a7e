#include "support/bundle/pack.hpp"

#include <fmt/format.h>

#include "store/store_paths.hpp"
#include "support/bundle/output_file.hpp"
#include "support/bundle/store_contents.hpp"
#include "support/bundle/tar_writer.hpp"
#include "support/bundle/zstd_stream.hpp"
#include "support/format.hpp"

namespace kernwright::support {
namespace {

/// An archive beyond the limits would be refused wherever it is unpacked.
Result<> check_limits(const StoreContents& contents, std::size_t manifest_bytes, const BundleLimits& limits) {
  const std::size_t members = contents.records.size() + contents.entries.size();
  // A member takes a header block and less than one block of padding; two blocks end the archive.
  std::uint64_t bytes = contents.entry_bytes.count + manifest_bytes + 2 * kTarBlock * (members + 2);
  for (const auto& [name, text] : contents.records) bytes += text.size();
  if (members <= limits.members && bytes <= limits.archive.count && manifest_bytes <= kLargestRecord.count) return {};
  return fail(
      ErrorCode::invalid_argument,
      fmt::format("a bundle of this store would have {} members, {} before compression and a manifest of {}; legal are {}, {} and {}: "
                  "pack fewer targets at once (--target)",
                  members, format_bytes({bytes}), format_bytes({manifest_bytes}), limits.members, format_bytes(limits.archive),
                  format_bytes(kLargestRecord)));
}

Result<> add_entries(const PackSource& source, const StoreContents& contents, TarWriter& tar) {
  for (const MemberName& name : contents.entries) {
    const auto bytes = read_entry(source.files, source.store, name, nullptr);
    if (!bytes) {
      return fail(ErrorCode::io, fmt::format("the store changed while it was packed: entry '{}' was whole before, but now: {}; pack again",
                                             text_of(name), bytes.error().message));
    }
    if (auto added = tar.add(text_of(name), *bytes); !added) return added;
  }
  return {};
}

/// Members in the order of their names: compilers, entries, fits.
Result<> write_archive(const PackSource& source, const StoreContents& contents, std::string_view manifest, TarWriter& tar) {
  if (auto added = tar.add(kManifestName, as_bytes(manifest)); !added) return added;
  const auto first_fit = contents.records.lower_bound("entries/");
  for (auto record = contents.records.begin(); record != first_fit; ++record) {
    if (auto added = tar.add(record->first, as_bytes(record->second)); !added) return added;
  }
  if (auto added = add_entries(source, contents, tar); !added) return added;
  for (auto record = first_fit; record != contents.records.end(); ++record) {
    if (auto added = tar.add(record->first, as_bytes(record->second)); !added) return added;
  }
  return tar.finish();
}

}  // namespace

Result<Packed> pack_bundle(const PackSource& source, const std::filesystem::path& file, const std::shared_ptr<PosixCalls>& calls,
                           const BundleLimits& limits) {
  auto contents = read_store(source);
  if (!contents) return fail(std::move(contents.error()));
  const std::string manifest = write_manifest(contents->manifest);
  if (auto checked = check_limits(*contents, manifest.size(), limits); !checked) return fail(std::move(checked.error()));
  auto output = OutputFile::create(file, calls);
  if (!output) return fail(std::move(output.error()));
  ZstdWriter zstd([&](std::span<const std::byte> bytes) { return output->write(bytes); });
  TarWriter tar([&](std::span<const std::byte> bytes) { return zstd.write(bytes); });
  if (auto written = write_archive(source, *contents, manifest, tar); !written) return fail(std::move(written.error()));
  if (auto finished = zstd.finish(); !finished) return fail(std::move(finished.error()));
  if (auto committed = output->commit(); !committed) return fail(std::move(committed.error()));
  return Packed{std::move(contents->manifest), output->size(), std::move(contents->left_out)};
}

}  // namespace kernwright::support
