// Starts a program without a shell, with a time limit, and keeps what it says.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kernwright/result.hpp"
#include "kernwright/units.hpp"

namespace kernwright::host {

struct ChildCommand {
  std::filesystem::path program;         ///< Not looked up on PATH.
  std::vector<std::string> arguments;    ///< argv, argv[0] included.
  std::vector<std::string> environment;  ///< "NAME=value"; nothing else is passed on.
  std::filesystem::path folder;          ///< Its working folder.
  double time_limit_seconds = 0;
  Bytes output_limit = mebibytes(1);  ///< What is said beyond it is read and dropped.
};

struct ChildOutcome {
  int exit_code = 0;   ///< 128 + n where signal n ended it.
  std::string output;  ///< stdout and stderr together as they came, up to the limit.
  bool truncated = false;
};

/// Waits for the end. The child leads a process group of its own, which is killed at the time limit (timed_out; the message ends in what
/// it had said). not_found and io where it could not be started.
Result<ChildOutcome> run_child(const ChildCommand& command);

}  // namespace kernwright::host
