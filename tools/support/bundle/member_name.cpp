#include "support/bundle/member_name.hpp"

#include <charconv>

#include "store/store_paths.hpp"

namespace kernwright::support {

std::string text_of(const MemberName& name) {
  const std::string hex = name.key.hex();
  switch (name.kind) {
    case MemberKind::compiler: return compiler_path({}, hex).native();
    case MemberKind::entry: return entry_path({}, hex).native();
    case MemberKind::fit: return fit_path({}, hex).native();
  }
  return {};
}

std::optional<MemberName> parse_member_name(std::string_view text) {
  const std::string_view file = text.substr(text.rfind('/') + 1);  // npos + 1 is 0
  for (const MemberKind kind : {MemberKind::compiler, MemberKind::entry, MemberKind::fit}) {
    const auto hex = key_of(file, kind == MemberKind::entry ? kEntryEnding : kRecordEnding);
    if (!hex) continue;
    const auto key = parse_key(*hex);
    if (key && text_of({kind, *key}) == text) return MemberName{kind, *key};
  }
  return std::nullopt;
}

std::optional<EntryKey> parse_key(std::string_view hex) {
  EntryKey key;
  if (hex.size() != 2 * key.bytes.size() || !is_hex(hex)) return std::nullopt;
  for (std::byte& byte : key.bytes) {
    std::uint8_t value = 0;
    std::from_chars(hex.data(), hex.data() + 2, value, 16);
    byte = std::byte{value};
    hex.remove_prefix(2);
  }
  return key;
}

}  // namespace kernwright::support
