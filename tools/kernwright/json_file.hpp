// Documents that a command writes to a file beside what it prints.
#pragma once

#include <string>

#include "kernwright/result.hpp"

namespace kernwright::tool {

/// Noticed before minutes are spent: `io` where the file of --json cannot be written. "" and "-" are no files. A file that is there stays
/// as it is.
Result<> require_writable_json(const std::string& file);

Result<> write_json(const std::string& file, const std::string& text);

}  // namespace kernwright::tool
