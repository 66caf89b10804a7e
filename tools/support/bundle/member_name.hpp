// The names of a bundle's members: the manifest's, and those of a store's files as docs/cache.md gives them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "artifact.hpp"

namespace kernwright::support {

inline constexpr std::string_view kManifestName = "bundle.toml";  ///< The first member.

/// In the order of their members.
enum class MemberKind : std::uint8_t { compiler, entry, fit };

struct MemberName {
  MemberKind kind{};
  EntryKey key;  ///< An entry's or fit's key; a compiler's record name.
  friend bool operator==(const MemberName&, const MemberName&) = default;
};

/// "compilers/<key>.toml", "entries/<first two digits>/<key>.kwe", "fits/<key>.toml".
std::string text_of(const MemberName& name);
/// nullopt for everything that text_of() does not give.
std::optional<MemberName> parse_member_name(std::string_view text);
/// 32 lower-case hex digits.
std::optional<EntryKey> parse_key(std::string_view hex);

}  // namespace kernwright::support
