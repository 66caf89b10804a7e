#include "json_file.hpp"

#include <fmt/format.h>

#include <fstream>

#include "output_file.hpp"

namespace kernwright::tool {

Result<> require_writable_json(const std::string& file) {
  if (file.empty() || file == "-") return {};
  if (auto there = require_folder("--json", file); !there) return there;
  // Appending nothing leaves a file that is there as it is.
  if (std::ofstream(file, std::ios::app)) return {};
  return fail(ErrorCode::io, fmt::format("--json {}: it cannot be written", file));
}

Result<> write_json(const std::string& file, const std::string& text) {
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream << text << std::flush;
  if (stream) return {};
  return fail(ErrorCode::io, fmt::format("--json {}: it could not be written", file));
}

}  // namespace kernwright::tool
