#include "support/bundle/manifest.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "manifest/toml_reader.hpp"
#include "store/compiler_record.hpp"
#include "support/bundle/member_name.hpp"

namespace kernwright::support {
namespace {

constexpr std::int64_t kBundleFormat = 1;

Result<std::size_t> read_count(TomlReader& reader, std::string_view key) {
  const auto value = reader.integer(key);
  if (!value) return fail(Error(value.error()));
  if (*value < 0) return fail(reader.error(key, fmt::format("is {}; it must be 0 or more", *value)));
  return static_cast<std::size_t>(*value);
}

Result<std::vector<BundleManifest::Compiler>> read_compilers(TomlReader& reader) {
  auto tables = reader.tables("compiler");
  if (!tables) return fail(std::move(tables.error()));
  std::vector<BundleManifest::Compiler> compilers;
  for (TomlReader& table : *tables) {
    auto record = table.string("record");
    if (!record) return fail(std::move(record.error()));
    auto name = table.string("name");
    if (!name) return fail(std::move(name.error()));
    auto version = table.string("version");
    if (!version) return fail(std::move(version.error()));
    if (auto finished = table.finish(); !finished) return fail(std::move(finished.error()));
    compilers.push_back({std::move(*record), std::move(*name), std::move(*version)});
  }
  return compilers;
}

}  // namespace

void add_target(BundleManifest& manifest, const std::string& target) {
  const auto place = std::ranges::lower_bound(manifest.targets, target);
  if (place == manifest.targets.end() || *place != target) manifest.targets.insert(place, target);
}

void add_compiler(BundleManifest& manifest, const CompilerIdentity& compiler) {
  BundleManifest::Compiler added{compiler_record_name(compiler), compiler.name, compiler.version};
  const auto place = std::ranges::lower_bound(manifest.compilers, added.record, {}, &BundleManifest::Compiler::record);
  if (place == manifest.compilers.end() || place->record != added.record) manifest.compilers.insert(place, std::move(added));
}

std::string write_manifest(const BundleManifest& manifest) {
  std::vector<std::string> targets;
  std::ranges::transform(manifest.targets, std::back_inserter(targets), toml_quote);
  std::string toml = fmt::format("format = {}\nentries = {}\nfits = {}\ntargets = [{}]\n", kBundleFormat, manifest.entries, manifest.fits,
                                 fmt::join(targets, ", "));
  for (const auto& [record, name, version] : manifest.compilers) {
    toml +=
        fmt::format("\n[[compiler]]\nrecord = {}\nname = {}\nversion = {}\n", toml_quote(record), toml_quote(name), toml_quote(version));
  }
  return toml;
}

Result<BundleManifest> parse_manifest(std::string_view toml) {
  const auto table = parse_toml(toml, kManifestName);
  if (!table) return fail(Error(table.error()));
  TomlReader reader(*table, std::string(kManifestName), "");
  if (auto format = reader.require_format(kBundleFormat); !format) return fail(std::move(format.error()));
  BundleManifest manifest;
  const auto entries = read_count(reader, "entries");
  if (!entries) return fail(Error(entries.error()));
  manifest.entries = *entries;
  const auto fits = read_count(reader, "fits");
  if (!fits) return fail(Error(fits.error()));
  manifest.fits = *fits;
  auto targets = reader.strings("targets");
  if (!targets) return fail(std::move(targets.error()));
  manifest.targets = std::move(*targets);
  auto compilers = read_compilers(reader);
  if (!compilers) return fail(std::move(compilers.error()));
  manifest.compilers = std::move(*compilers);
  if (auto finished = reader.finish(); !finished) return fail(std::move(finished.error()));
  if (write_manifest(manifest) != toml) {
    return fail(ErrorCode::malformed, fmt::format("{} is not in the form that its format gives", kManifestName));
  }
  return manifest;
}

std::string difference(const BundleManifest& manifest, const BundleManifest& found) {
  const auto differs = [](std::string_view what, const std::string& said, const std::string& is) {
    return fmt::format("{} says {}: {}; the archive holds {}", kManifestName, what, said, is);
  };
  const auto joined = [](const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); };
  if (manifest.entries != found.entries) return differs("entries", std::to_string(manifest.entries), std::to_string(found.entries));
  if (manifest.fits != found.fits) return differs("fits", std::to_string(manifest.fits), std::to_string(found.fits));
  if (manifest.targets != found.targets) return differs("targets", joined(manifest.targets), joined(found.targets));
  if (manifest.compilers != found.compilers) {
    return fmt::format("{} lists {} compilers that are not the {} of the archive", kManifestName, manifest.compilers.size(),
                       found.compilers.size());
  }
  return {};
}

}  // namespace kernwright::support
