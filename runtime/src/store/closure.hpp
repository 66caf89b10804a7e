// The sources of an artifact as one zstd frame.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "artifact.hpp"
#include "kernwright/result.hpp"

namespace kernwright {

/// Names and contents in order, before compression.
std::string write_closure(const std::vector<SourceFile>& sources);
Result<std::vector<SourceFile>> read_closure(std::string_view bytes);

Result<std::string> compress(std::string_view bytes);
/// Exactly `size` bytes, or malformed. Nothing larger than `size` is ever allocated, whatever the frame says of itself.
Result<std::string> decompress(std::string_view frame, std::size_t size);

}  // namespace kernwright
