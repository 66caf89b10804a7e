#include "support/bundle/file_kind.hpp"

#include <algorithm>
#include <array>

#include "store/entry_layout.hpp"

namespace kernwright::support {
namespace {

struct Kind {
  std::size_t offset;
  std::string_view magic;
  std::string_view name;
};

constexpr std::string_view kZstdMagic = "\x28\xb5\x2f\xfd";
constexpr std::array kKinds{
    Kind{0, "\x1f\x8b", "a gzip file"},
    Kind{0, std::string_view("\xfd\x37zXZ\0", 6), "an xz file"},
    Kind{0, "BZh", "a bzip2 file"},
    Kind{0, "PK\x03\x04", "a zip archive"},
    Kind{0, "\x04\x22\x4d\x18", "an lz4 file"},
    Kind{0, "\x7f\x45LF", "an ELF file"},
    Kind{0, kEntryMagic, "one entry of a store"},
    Kind{257, "ustar", "a tar archive without compression"},
};

bool is_text(std::string_view bytes) {
  return std::ranges::all_of(bytes, [](char c) { return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t'; });
}

}  // namespace

std::string_view not_zstd(std::span<const std::byte> first_bytes) noexcept {
  const std::string_view bytes{reinterpret_cast<const char*>(first_bytes.data()), std::min(first_bytes.size(), kBytesThatTell)};
  if (bytes.empty()) return "empty";
  if (bytes.starts_with(kZstdMagic)) return {};
  for (const Kind& kind : kKinds) {
    if (bytes.size() > kind.offset && bytes.substr(kind.offset).starts_with(kind.magic)) return kind.name;
  }
  return is_text(bytes) ? "a text file" : "no zstd frame";
}

}  // namespace kernwright::support
