// Where the program's words go: one document on stdout, everything else on stderr.
#pragma once

#include <string_view>

#include "exit_code.hpp"
#include "kernwright/log.hpp"
#include "kernwright/runtime.hpp"

namespace kernwright::tool {

/// What every subcommand can be told about its output.
struct OutputOptions {
  bool json = false;   ///< One JSON document on stdout and nothing else there.
  bool quiet = false;  ///< No progress, no notes, no warnings on stderr; errors still.
};

/// Makes standard streams that were closed safe to have: a file opened later must not get their numbers and be written to as stdout.
/// A write to a pipe nobody reads becomes an error instead of a signal.
void prepare_standard_streams();

/// Writes to stdout and flushes it. `io` where it is closed or full.
Result<> write_stdout(std::string_view text);

/// Writes the document and answers `otherwise`, or says on stderr why it could not and answers `unable`.
ExitCode finish(std::string_view document, ExitCode otherwise);

/// "kernwright: error: …" on stderr; the code that the program must exit with.
ExitCode report_error(const Error& error);
/// The same for words that are off.
ExitCode report_usage(std::string_view message);

/// "kernwright: note: …" unless quiet.
void note(const OutputOptions& output, std::string_view text);

/// Options whose log goes to stderr: warnings, or what KERNWRIGHT_LOG asks for; errors only where quiet. `template_folder` is what
/// --templates names; empty: the built-in templates alone.
RuntimeOptions runtime_options(const OutputOptions& output, const std::string& template_folder = {});

}  // namespace kernwright::tool
