// Reads what the runtime needs from a cubin or a host shared object, trusting none of it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernwright/plan.hpp"
#include "kernwright/result.hpp"

namespace kernwright::elf {

/// The bytes of a defined data symbol of a little-endian ELF64 file (.symtab or .dynsym). not_found where there is no such symbol;
/// malformed where an offset or size points outside the file.
Result<std::span<const std::byte>> symbol(std::span<const std::byte> file, std::string_view name);

/// The size of a section, 0 where it is absent.
Result<std::size_t> section_size(std::span<const std::byte> file, std::string_view name);

/// `count` plans from the symbol `kw_plan` (count 1) or `kw_plans`; a size or a version that differs is load_failed.
Result<std::vector<Plan>> plans(std::span<const std::byte> file, std::string_view symbol_name, std::size_t count);

/// Registers a thread and stack frame of a kernel from a cubin's .nv.info sections.
struct KernelFacts {
  int registers = 0;
  std::size_t stack_frame = 0;
  std::size_t static_shared = 0;  ///< Less the 1,024 bytes that sm_90 and later reserve.
};
Result<KernelFacts> kernel_facts(std::span<const std::byte> cubin, std::string_view kernel, int capability);

/// The GNU build id note, lower-case hex; not_found where there is none. Reads only the headers and the note of a file on disk.
Result<std::string> build_id(std::span<const std::byte> file);

/// The DT_SONAME of a shared object; not_found where it has none.
Result<std::string> soname(std::span<const std::byte> file);

}  // namespace kernwright::elf
