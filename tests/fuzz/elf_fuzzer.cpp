// Any bytes are read as an ELF file or refused, within their bounds.
#include <vector>

#include "elf/elf_reader.hpp"
#include "fuzz_target.hpp"

using namespace kernwright;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  for (const std::string_view name : {"kw_plan", "kw_plans", ""}) {
    const auto symbol = elf::symbol(file, name);
    // The answer is a part of the file.
    FUZZ_CHECK(!symbol || symbol->empty() ||
               (symbol->data() >= file.data() && symbol->size() <= file.size() &&
                static_cast<std::size_t>(symbol->data() - file.data()) <= file.size() - symbol->size()));
  }
  (void)elf::section_size(file, ".text");
  (void)elf::plans(file, "kw_plan", 1);
  (void)elf::plans(file, "kw_plans", 3);
  (void)elf::build_id(file);
  for (const int capability : {80, 90}) (void)elf::kernel_facts(file, "scale", capability);
  return 0;
}
