#include "elf/elf_reader.hpp"

#include <fmt/format.h>

#include <limits>

#include "elf/elf_file.hpp"

namespace kernwright::elf {

namespace {

Result<ByteView> data_of(const File& file, const SymbolEntry& entry, std::string_view name) {
  const auto& sections = file.sections();
  if (entry.section >= kSectionReserved || entry.section >= sections.size())
    return fail(ErrorCode::malformed, fmt::format("symbol '{}' stands in section {}, which the file does not have", name, entry.section));
  const SectionHeader& section = sections[entry.section];
  const auto contents = file.contents(section);
  if (!contents) return fail(ErrorCode::malformed, fmt::format("symbol '{}' stands in a section without bytes in the file", name));

  // A cubin counts from its section, as a relocatable file does; a linked host object gives a virtual address.
  std::uint64_t offset = entry.value;
  if (file.header().machine != kMachineCuda && file.header().type != kTypeRelocatable) {
    if (entry.value < section.address) return fail(ErrorCode::malformed, fmt::format("symbol '{}' lies before its section", name));
    offset = entry.value - section.address;
  }
  const auto bytes = slice(*contents, offset, entry.size);
  if (!bytes)
    return fail(ErrorCode::malformed, fmt::format("symbol '{}' ({} bytes at {}) reaches outside its section of {} bytes", name, entry.size,
                                                  offset, contents->size()));
  return *bytes;
}

// The note that `owner` "GNU" and type 3 mark; notes are padded to 4 bytes, or to 8 where their table says so.
std::optional<std::string> gnu_build_id(ByteView notes, std::uint64_t alignment) {
  const std::uint64_t unit = alignment == 8 ? 8 : 4;
  const auto padded = [unit](std::uint64_t n) { return (n + unit - 1) / unit * unit; };
  std::uint64_t at = 0;
  while (true) {
    const auto name_size = load<std::uint32_t>(notes, at);
    const auto value_size = load<std::uint32_t>(notes, at + 4);
    const auto type = load<std::uint32_t>(notes, at + 8);
    if (!name_size || !value_size || !type) return std::nullopt;
    const std::uint64_t name_at = at + 12;
    const std::uint64_t value_at = at + padded(12 + std::uint64_t{*name_size});
    const auto name = slice(notes, name_at, *name_size);
    const auto value = slice(notes, value_at, *value_size);
    if (!name || !value) return std::nullopt;
    if (*type == 3 && *name_size == 4 && std::memcmp(name->data(), "GNU", 4) == 0 && !value->empty() && value->size() <= 64) {
      std::string hex;
      for (const std::byte b : *value) hex += fmt::format("{:02x}", static_cast<unsigned>(b));
      return hex;
    }
    at = value_at + padded(*value_size);
  }
}

// CUDA's .nv.info attributes: a format byte, an attribute byte, and a 16-bit value that for format 4 is the length of what follows.
constexpr std::uint8_t kInfoSized = 4;
constexpr std::uint8_t kInfoFrameSize = 0x11;
constexpr std::uint8_t kInfoRegisters = 0x2f;

struct InfoFacts {
  std::optional<std::uint32_t> registers;
  std::optional<std::uint32_t> frame;
};

Result<InfoFacts> read_info(ByteView info, std::uint32_t symbol_index) {
  InfoFacts facts;
  std::uint64_t at = 0;
  while (at < info.size()) {
    const auto format = load<std::uint8_t>(info, at);
    const auto attribute = load<std::uint8_t>(info, at + 1);
    const auto value = load<std::uint16_t>(info, at + 2);
    if (!format || !attribute || !value) return fail(ErrorCode::malformed, "the cubin's .nv.info ends inside an attribute");
    at += 4;
    if (*format != kInfoSized) continue;
    const auto payload = slice(info, at, *value);
    if (!payload) return fail(ErrorCode::malformed, "an attribute of the cubin's .nv.info reaches outside it");
    at += *value;
    if (*attribute != kInfoFrameSize && *attribute != kInfoRegisters) continue;
    const auto index = load<std::uint32_t>(*payload, 0);
    const auto number = load<std::uint32_t>(*payload, 4);
    if (!index || !number || *index != symbol_index) continue;
    (*attribute == kInfoRegisters ? facts.registers : facts.frame) = *number;
  }
  return facts;
}

}  // namespace

Result<std::span<const std::byte>> symbol(std::span<const std::byte> bytes, std::string_view name) {
  const auto file = File::parse(bytes);
  if (!file) return fail(Error(file.error()));
  for (const SectionHeader& table : file->sections()) {
    if (table.type != kSectionSymbols && table.type != kSectionDynamicSymbols) continue;
    const auto found = file->find_symbol(table, name);
    if (!found) return fail(Error(found.error()));
    if (*found) return data_of(*file, (*found)->entry, name);
  }
  return fail(ErrorCode::not_found, fmt::format("the file has no symbol '{}'", name));
}

Result<std::size_t> section_size(std::span<const std::byte> bytes, std::string_view name) {
  const auto file = File::parse(bytes);
  if (!file) return fail(Error(file.error()));
  const SectionHeader* section = file->section(name);
  return section == nullptr ? std::size_t{0} : static_cast<std::size_t>(section->size);
}

Result<std::vector<Plan>> plans(std::span<const std::byte> bytes, std::string_view symbol_name, std::size_t count) {
  const auto found = symbol(bytes, symbol_name);
  if (!found) {
    Error error = found.error();
    return fail(ErrorCode::load_failed, fmt::format("the artifact's plan cannot be read: {}", error.message));
  }
  if (count > std::numeric_limits<std::size_t>::max() / sizeof(Plan) || found->size() != count * sizeof(Plan))
    return fail(ErrorCode::load_failed, fmt::format("the artifact's '{}' has {} bytes; {} plans of {} bytes are expected", symbol_name,
                                                    found->size(), count, sizeof(Plan)));
  std::vector<Plan> answer(count);
  if (count != 0) std::memcpy(answer.data(), found->data(), found->size());
  for (const Plan& plan : answer) {
    if (plan.version != Plan::kVersion)
      return fail(ErrorCode::load_failed, fmt::format("the artifact's '{}' has plan version {}; this library reads version {}", symbol_name,
                                                      plan.version, Plan::kVersion));
  }
  return answer;
}

Result<KernelFacts> kernel_facts(std::span<const std::byte> cubin, std::string_view kernel, int capability) {
  const auto file = File::parse(cubin);
  if (!file) return fail(Error(file.error()));
  if (file->header().machine != kMachineCuda)
    return fail(ErrorCode::malformed,
                fmt::format("not a cubin: the ELF machine is {} instead of {}", file->header().machine, kMachineCuda));

  std::optional<std::uint32_t> index;
  for (const SectionHeader& table : file->sections()) {
    if (table.type != kSectionSymbols) continue;
    const auto found = file->find_symbol(table, kernel);
    if (!found) return fail(Error(found.error()));
    if (*found && ((*found)->entry.info & 0xf) == kSymbolFunction) index = (*found)->index;
  }
  if (!index) return fail(ErrorCode::not_found, fmt::format("the cubin has no kernel '{}'", kernel));

  InfoFacts facts;
  for (const std::string& name : {std::string(".nv.info"), fmt::format(".nv.info.{}", kernel)}) {
    const SectionHeader* section = file->section(name);
    if (section == nullptr) continue;
    const auto contents = file->contents(*section);
    if (!contents) return fail(ErrorCode::malformed, fmt::format("the cubin's section {} lies outside the file", name));
    const auto read = read_info(*contents, *index);
    if (!read) return fail(Error(read.error()));
    if (read->registers) facts.registers = read->registers;
    if (read->frame) facts.frame = read->frame;
  }
  if (!facts.registers) return fail(ErrorCode::malformed, fmt::format("the cubin does not say how many registers '{}' uses", kernel));
  // ptxas counts registers in hundreds; anything else is damage, and must not become a negative int.
  if (*facts.registers > 4096)
    return fail(ErrorCode::malformed, fmt::format("the cubin claims {} registers for '{}'", *facts.registers, kernel));

  KernelFacts answer;
  answer.registers = static_cast<int>(*facts.registers);
  answer.stack_frame = facts.frame.value_or(0);
  if (const SectionHeader* shared = file->section(fmt::format(".nv.shared.{}", kernel))) {
    const std::uint64_t reserved = capability >= 90 ? 1024 : 0;
    answer.static_shared = shared->size > reserved ? static_cast<std::size_t>(shared->size - reserved) : 0;
  }
  return answer;
}

Result<std::string> build_id(std::span<const std::byte> bytes) {
  // Program headers stand at the front of a library and its section table at the end: reading the front touches one page.
  const auto header = load<FileHeader>(bytes, 0);
  if (header &&
      std::memcmp(header->ident,
                  "\x7f"
                  "ELF\x02\x01",
                  6) == 0 &&
      header->phentsize == sizeof(ProgramHeader)) {
    for (std::uint64_t i = 0; i < header->phnum; ++i) {
      if (header->phoff > bytes.size()) break;
      const auto program = load<ProgramHeader>(bytes, header->phoff + i * sizeof(ProgramHeader));
      if (!program) break;
      if (program->type != kProgramNote) continue;
      if (const auto notes = slice(bytes, program->offset, program->file_size)) {
        if (auto id = gnu_build_id(*notes, program->alignment)) return std::move(*id);
      }
    }
  }
  const auto file = File::parse(bytes);
  if (!file) return fail(Error(file.error()));
  for (const SectionHeader& section : file->sections()) {
    if (section.type != kSectionNote) continue;
    if (const auto notes = file->contents(section)) {
      if (auto id = gnu_build_id(*notes, section.alignment)) return std::move(*id);
    }
  }
  return fail(ErrorCode::not_found, "the file has no GNU build id note");
}

Result<std::string> soname(std::span<const std::byte> bytes) {
  constexpr std::uint32_t kSectionDynamic = 6;
  constexpr std::uint64_t kTagSoname = 14;
  const auto file = File::parse(bytes);
  if (!file) return fail(Error(file.error()));
  for (const SectionHeader& section : file->sections()) {
    if (section.type != kSectionDynamic) continue;
    const auto entries = file->contents(section);
    const auto strings = section.link < file->sections().size() ? file->contents(file->sections()[section.link]) : std::nullopt;
    if (!entries || !strings) return fail(ErrorCode::malformed, "the ELF dynamic section lies outside the file");
    for (std::uint64_t at = 0; at + 16 <= entries->size(); at += 16) {
      const auto tag = load<std::uint64_t>(*entries, at);
      const auto value = load<std::uint64_t>(*entries, at + 8);
      if (*tag != kTagSoname) continue;
      const auto name = string_at(*strings, *value);
      if (!name) return fail(ErrorCode::malformed, "the ELF SONAME lies outside the string table");
      return std::string(*name);
    }
  }
  return fail(ErrorCode::not_found, "the file has no SONAME");
}

}  // namespace kernwright::elf
