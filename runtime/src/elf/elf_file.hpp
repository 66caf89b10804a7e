// The section and symbol tables of a little-endian ELF64 file, every offset checked before it is followed.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kernwright/result.hpp"

namespace kernwright::elf {

using ByteView = std::span<const std::byte>;

/// `count` bytes from `offset`, or nothing where they are not all there. No arithmetic here can wrap.
inline std::optional<ByteView> slice(ByteView bytes, std::uint64_t offset, std::uint64_t count) noexcept {
  if (offset > bytes.size() || count > bytes.size() - offset) return std::nullopt;
  return bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(count));
}

/// A value at any alignment.
template <class T>
std::optional<T> load(ByteView bytes, std::uint64_t offset) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto part = slice(bytes, offset, sizeof(T));
  if (!part) return std::nullopt;
  T value;
  std::memcpy(&value, part->data(), sizeof(T));
  return value;
}

/// A NUL-terminated string of a string table; nothing where it starts or ends outside.
std::optional<std::string_view> string_at(ByteView table, std::uint64_t offset) noexcept;

// The layouts of the System V ABI (gABI, chapters 4 and 5), ELFCLASS64.
struct FileHeader {
  unsigned char ident[16];
  std::uint16_t type, machine;
  std::uint32_t version;
  std::uint64_t entry, phoff, shoff;
  std::uint32_t flags;
  std::uint16_t ehsize, phentsize, phnum, shentsize, shnum, shstrndx;
};
static_assert(sizeof(FileHeader) == 64);
struct SectionHeader {
  std::uint32_t name, type;
  std::uint64_t flags, address, offset, size;
  std::uint32_t link, info;
  std::uint64_t alignment, entry_size;
};
static_assert(sizeof(SectionHeader) == 64);
struct ProgramHeader {
  std::uint32_t type, flags;
  std::uint64_t offset, address, physical, file_size, memory_size, alignment;
};
static_assert(sizeof(ProgramHeader) == 56);
struct SymbolEntry {
  std::uint32_t name;
  unsigned char info, other;
  std::uint16_t section;
  std::uint64_t value, size;
};
static_assert(sizeof(SymbolEntry) == 24);

inline constexpr std::uint16_t kMachineCuda = 190;
inline constexpr std::uint16_t kTypeRelocatable = 1;
inline constexpr std::uint32_t kSectionSymbols = 2;
inline constexpr std::uint32_t kSectionNoBits = 8;
inline constexpr std::uint32_t kSectionNote = 7;
inline constexpr std::uint32_t kSectionDynamicSymbols = 11;
inline constexpr std::uint32_t kProgramNote = 4;
inline constexpr std::uint16_t kSectionReserved = 0xff00;  // SHN_LORESERVE: absolute, common and extended indices
inline constexpr unsigned char kSymbolFunction = 2;

/// The file header and section table. Borrows the bytes.
class File {
 public:
  /// malformed where the bytes are not a little-endian ELF64 file or its section table lies outside it.
  static Result<File> parse(ByteView bytes);

  [[nodiscard]] ByteView bytes() const noexcept { return bytes_; }
  [[nodiscard]] const FileHeader& header() const noexcept { return header_; }
  [[nodiscard]] const std::vector<SectionHeader>& sections() const noexcept { return sections_; }
  [[nodiscard]] std::optional<std::string_view> section_name(const SectionHeader& section) const noexcept;
  [[nodiscard]] const SectionHeader* section(std::string_view name) const noexcept;
  /// The bytes of a section in the file; nothing where it has none or they are not all there.
  [[nodiscard]] std::optional<ByteView> contents(const SectionHeader& section) const noexcept;

  struct Symbol {
    std::uint32_t index = 0;
    SymbolEntry entry{};
  };
  /// The first defined symbol of this name in `table` (a section of type symtab or dynsym). malformed where the table is broken.
  [[nodiscard]] Result<std::optional<Symbol>> find_symbol(const SectionHeader& table, std::string_view name) const;

 private:
  ByteView bytes_;
  FileHeader header_{};
  std::vector<SectionHeader> sections_;
  ByteView section_names_;
};

}  // namespace kernwright::elf
