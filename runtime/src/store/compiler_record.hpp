// A store's record of one compiler that its artifacts were made by.
#pragma once

#include <string>
#include <string_view>

#include "artifact.hpp"
#include "kernwright/result.hpp"

namespace kernwright {

/// The record's file name without its ending: a digest of the whole identity.
std::string compiler_record_name(const CompilerIdentity& compiler);
/// "nvrtc 13.0 (1a2b3c4d)" for people: name, the version's first line, and the first digits of the record's name, which KERNWRIGHT_COMPILER
/// takes.
std::string compiler_label(const CompilerIdentity& compiler);
std::string write_compiler_record(const CompilerIdentity& compiler);
Result<CompilerIdentity> parse_compiler_record(std::string_view toml, std::string_view file_name);

}  // namespace kernwright
