#include "elf/elf_file.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kernwright::elf {

std::optional<std::string_view> string_at(ByteView table, std::uint64_t offset) noexcept {
  if (offset >= table.size()) return std::nullopt;
  const ByteView tail = table.subspan(static_cast<std::size_t>(offset));
  const void* end = std::memchr(tail.data(), 0, tail.size());
  if (end == nullptr) return std::nullopt;
  const auto* text = reinterpret_cast<const char*>(tail.data());
  return std::string_view(text, static_cast<std::size_t>(static_cast<const char*>(end) - text));
}

Result<File> File::parse(ByteView bytes) {
  File file;
  file.bytes_ = bytes;
  const auto header = load<FileHeader>(bytes, 0);
  if (!header || std::memcmp(header->ident,
                             "\x7f"
                             "ELF",
                             4) != 0)
    return fail(ErrorCode::malformed, fmt::format("not an ELF file ({} bytes without its magic number)", bytes.size()));
  if (header->ident[4] != 2 || header->ident[5] != 1)
    return fail(ErrorCode::malformed, fmt::format("an ELF file of class {} and byte order {}: only 64-bit little-endian (2 and 1) is read",
                                                  header->ident[4], header->ident[5]));
  file.header_ = *header;
  if (header->shoff == 0) return file;
  if (header->shentsize != sizeof(SectionHeader))
    return fail(ErrorCode::malformed, fmt::format("the ELF section headers have {} bytes each instead of 64", header->shentsize));

  // gABI: with 0xff00 sections and more, the counts stand in section 0.
  std::uint64_t count = header->shnum;
  std::uint64_t names = header->shstrndx;
  if (count == 0 || names == 0xffff) {
    const auto first = load<SectionHeader>(bytes, header->shoff);
    if (!first) return fail(ErrorCode::malformed, "the ELF section table lies outside the file");
    if (count == 0) count = first->size;
    if (names == 0xffff) names = first->link;
  }
  // Compared before it is multiplied, so that a hostile count can neither wrap nor allocate.
  if (header->shoff > bytes.size() || count > (bytes.size() - header->shoff) / sizeof(SectionHeader))
    return fail(ErrorCode::malformed, fmt::format("the ELF section table ({} entries at {}) lies outside the file of {} bytes", count,
                                                  header->shoff, bytes.size()));
  file.sections_.resize(static_cast<std::size_t>(count));
  if (count != 0) std::memcpy(file.sections_.data(), bytes.data() + header->shoff, static_cast<std::size_t>(count) * sizeof(SectionHeader));
  if (names < count) {
    if (const auto table = file.contents(file.sections_[static_cast<std::size_t>(names)])) file.section_names_ = *table;
  }
  return file;
}

std::optional<std::string_view> File::section_name(const SectionHeader& section) const noexcept {
  return string_at(section_names_, section.name);
}

const SectionHeader* File::section(std::string_view name) const noexcept {
  const auto found = std::find_if(sections_.begin(), sections_.end(), [&](const SectionHeader& s) { return section_name(s) == name; });
  return found == sections_.end() ? nullptr : &*found;
}

std::optional<ByteView> File::contents(const SectionHeader& section) const noexcept {
  if (section.type == kSectionNoBits) return std::nullopt;
  return slice(bytes_, section.offset, section.size);
}

Result<std::optional<File::Symbol>> File::find_symbol(const SectionHeader& table, std::string_view name) const {
  const auto entries = contents(table);
  if (!entries) return fail(ErrorCode::malformed, "an ELF symbol table lies outside the file");
  if (table.entry_size != sizeof(SymbolEntry))
    return fail(ErrorCode::malformed, fmt::format("the ELF symbols have {} bytes each instead of 24", table.entry_size));
  const auto strings = table.link < sections_.size() ? contents(sections_[table.link]) : std::nullopt;
  if (!strings) return fail(ErrorCode::malformed, "the ELF symbol table's string table lies outside the file");

  const std::size_t count = entries->size() / sizeof(SymbolEntry);
  for (std::size_t i = 0; i < count; ++i) {
    const auto entry = load<SymbolEntry>(*entries, i * sizeof(SymbolEntry));
    if (entry->section == 0) continue;  // undefined here
    // Compared in place rather than measured: a hostile table of long names would make the loop quadratic.
    const auto text = slice(*strings, entry->name, name.size() + 1);
    if (!text || std::memcmp(text->data(), name.data(), name.size()) != 0 || (*text)[name.size()] != std::byte{0}) continue;
    return Symbol{static_cast<std::uint32_t>(i), *entry};
  }
  return std::nullopt;
}

}  // namespace kernwright::elf
