// The parts of an entry file, found and bounds-checked but not yet interpreted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "artifact.hpp"
#include "kernwright/result.hpp"

namespace kernwright {

inline constexpr std::string_view kEntryMagic{"\x89KWE\r\n\x1a\n", 8};  // as PNG's: shows a text-mode or 7-bit copy at once

/// Views into the file. The checksum held; nothing else about the fields has been checked unless it is said here.
struct EntryLayout {
  EntryKey key;
  std::string_view request;   ///< encode_request(…, SourceForm::digest)
  std::string_view compiler;  ///< encode_compiler
  std::vector<Plan> plans;
  ResourceUse resources;
  double compile_seconds = 0;     ///< Finite and not negative.
  std::size_t closure_bytes = 0;  ///< Of the closure before compression, within kLargestClosure.
  std::string_view binary, log, closure;
};

/// malformed with a reason. The sections fill the file exactly.
Result<EntryLayout> read_entry_layout(std::span<const std::byte> file);

/// The header's bytes for these sections' sizes.
std::string write_entry_header(const EntryLayout& layout);

/// Prefix, header and sections as one file.
std::vector<std::byte> assemble_entry(std::string_view header, std::string_view binary, std::string_view log, std::string_view closure);

}  // namespace kernwright
