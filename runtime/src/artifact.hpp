// What is asked of a compiler, and what came back.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernwright/kernel.hpp"
#include "kernwright/plan.hpp"
#include "kernwright/specialisation.hpp"
#include "kernwright/target.hpp"
#include "kernwright/tile.hpp"

namespace kernwright {

/// A source text under its virtual name ("sparse_mla/prefill_mma.cu").
struct SourceFile {
  std::string name;
  std::string content;
  friend bool operator==(const SourceFile&, const SourceFile&) = default;
};

enum class ArtifactKind : std::uint8_t {
  kernel,  ///< One specialisation and tile: one entry, its plan in `kw_plan`.
  plans,   ///< No kernel: the plans of a list of tiles in `kw_plans`.
};

/// Everything that decides the bytes that a given compiler makes: the first half of an entry's key.
struct BuildRequest {
  ArtifactKind kind = ArtifactKind::kernel;
  std::string template_name;
  std::string entry;  ///< The extern "C" kernel; empty for plans.
  Specialisation specialisation;
  std::vector<Tile> tiles;  ///< One for a kernel; the list in order for plans.
  Target target = Target::host();
  std::vector<SourceFile> sources;   ///< [0] is compiled; the rest is its closure in order of name. The generated header is among them.
  std::vector<std::string> options;  ///< The compiler's options that the request itself adds, in order.
};

/// The second half of the key: never a path, a time stamp or the driver's version.
struct CompilerIdentity {
  std::string name;                                             ///< "nvrtc" or "host"
  std::string version;                                          ///< NVRTC "13.0", or the host compiler's version text.
  std::vector<std::pair<std::string, std::string>> components;  ///< e.g. {"libnvrtc", build id}, {"libnvrtc-builtins", content hash}.
  friend bool operator==(const CompilerIdentity&, const CompilerIdentity&) = default;
};

/// XXH3-128 over the field-tagged, length-prefixed encoding of request and compiler.
struct EntryKey {
  std::array<std::byte, 16> bytes{};
  [[nodiscard]] std::string hex() const;  ///< 32 lower-case hex digits.
  friend auto operator<=>(const EntryKey&, const EntryKey&) = default;
};

/// A compiled request.
struct Artifact {
  EntryKey key;
  BuildRequest request;  ///< As built; an artifact read from a store has its sources only where asked for.
  CompilerIdentity compiler;
  std::vector<Plan> plans;  ///< One a tile of the request.
  ResourceUse resources;
  std::vector<std::byte> binary;  ///< Cubin, or the host shared object; empty for plans.
  std::string log;                ///< The compiler's own words; may hold NUL bytes.
  double compile_seconds = 0;
};
using ArtifactPointer = std::shared_ptr<const Artifact>;

}  // namespace kernwright
