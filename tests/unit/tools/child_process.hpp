// Runs a program as a child process and says how it ended.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace kernwright::tests {

struct ChildOptions {
  std::map<std::string, std::string> environment;  ///< On top of this process's. An empty value removes the variable.
  enum class Stdout { captured, closed, full, unread_pipe } stdout_is = Stdout::captured;
  std::function<void(pid_t)> while_running;  ///< Called every few milliseconds until the child has ended.
};

struct ChildResult {
  bool exited = false;  ///< Ended by itself, not by a signal or at the time limit.
  int exit_code = -1;
  std::string out, err;
};

/// Waits at most four minutes, then kills the child.
ChildResult run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments, const ChildOptions& options = {});

}  // namespace kernwright::tests
