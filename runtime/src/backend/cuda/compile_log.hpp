// Reads what NVRTC and ptxas say.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "artifact.hpp"

namespace kernwright {

/// The log as text: NUL bytes, which ptxas puts before its errors, become line ends, and trailing blank lines go.
std::string readable_log(std::string_view log);

/// The line in which ptxas says that the kernel asks for more shared memory or registers than the target has; nothing where the compile
/// failed for another reason.
std::optional<std::string> resource_refusal(std::string_view log);

struct Spills {
  Bytes stores;
  Bytes loads;
};
/// The sum over every function of the `-v` report. Nothing where the log has no report.
std::optional<Spills> spills(std::string_view log);

/// The source lines around each of the first errors that the log locates as "name(line): error", marked and numbered; empty where it
/// names none of `sources`.
std::string quote_error_lines(std::string_view log, std::span<const SourceFile> sources);

}  // namespace kernwright
