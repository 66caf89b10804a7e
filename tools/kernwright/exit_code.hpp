// What the program's exit codes say.
#pragma once

#include "kernwright/result.hpp"

namespace kernwright::tool {

enum class ExitCode : int {
  done = 0,
  wrong = 1,          ///< The work ran and the answer is wrong, or a check failed.
  usage = 2,          ///< The call's words are off: options, or an input file that is not what it must be.
  unable = 3,         ///< The machine cannot do it: no driver, no compiler, no space.
  interrupted = 130,  ///< By Ctrl-C, the work in hand finished.
  terminated = 143,   ///< The same by SIGTERM.
};

ExitCode exit_code(const Error& error) noexcept;

}  // namespace kernwright::tool
