// bundle.toml: what a bundle holds, for people and for the check that all of it came.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "artifact.hpp"
#include "kernwright/result.hpp"

namespace kernwright::support {

struct BundleManifest {
  std::size_t entries = 0;
  std::size_t fits = 0;
  std::vector<std::string> targets;  ///< Of entries and fits, sorted, each once.
  struct Compiler {
    std::string record;  ///< Its record's name, 32 hex digits.
    std::string name;
    std::string version;
    friend bool operator==(const Compiler&, const Compiler&) = default;
  };
  std::vector<Compiler> compilers;  ///< Those that the entries name, sorted by record.
  friend bool operator==(const BundleManifest&, const BundleManifest&) = default;
};

/// Writes down one more member; `targets` and `compilers` stay sorted.
void add_target(BundleManifest& manifest, const std::string& target);
void add_compiler(BundleManifest& manifest, const CompilerIdentity& compiler);

std::string write_manifest(const BundleManifest& manifest);
/// malformed where the text is not, byte for byte, what write_manifest() gives for some manifest of this format.
Result<BundleManifest> parse_manifest(std::string_view toml);
/// Where `found` is not what the manifest says: what differs. Empty where nothing does.
std::string difference(const BundleManifest& manifest, const BundleManifest& found);

}  // namespace kernwright::support
