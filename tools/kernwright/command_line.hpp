// The words of the command line.
#pragma once

namespace kernwright::tool {

/// Parses the words and runs the subcommand. The exit code, see exit_code.hpp.
int run_command_line(int argc, const char* const* argv);

}  // namespace kernwright::tool
