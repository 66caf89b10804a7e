// A child process of our own, from its start to its end.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kernwright/result.hpp"
#include "platform/file_descriptor.hpp"

namespace kernwright {

struct SpawnCommand {
  std::filesystem::path program;         ///< Not looked up on PATH.
  std::vector<std::string> arguments;    ///< argv, argv[0] included.
  std::vector<std::string> environment;  ///< "NAME=value"; nothing else is passed on.
  std::filesystem::path folder;          ///< Its working folder; empty: this process's.
  int standard_input = -1;               ///< -1: /dev/null. Descriptors stay the caller's.
  int standard_output = -1;              ///< Needed, as is standard_error.
  int standard_error = -1;
};

/// How a process ended.
struct ProcessEnd {
  int exit_code = 0;  ///< Where it ended by itself.
  int signal = 0;     ///< Not 0: the signal that ended it.
};

/// Leads a process group of its own, which is killed unless the process was seen to end. No signal is blocked or ignored in it.
class SpawnedProcess {
 public:
  /// not_found and io where it could not be started.
  static Result<SpawnedProcess> start(const SpawnCommand& command);
  SpawnedProcess(SpawnedProcess&& other) noexcept;
  SpawnedProcess& operator=(SpawnedProcess&&) = delete;
  ~SpawnedProcess();

  /// Its end, which is the one it had where it was over already.
  ProcessEnd kill_and_wait();
  /// Its end once it has come, however often it is asked for. Where the embedding program reaps children by itself that is lost: exit code
  /// 0 then.
  std::optional<ProcessEnd> poll_end();
  /// Readable once it has ended; -1 where the system has no such thing (before Linux 5.3).
  [[nodiscard]] int end_descriptor() const noexcept { return ended_.get(); }

 private:
  explicit SpawnedProcess(pid_t id);
  pid_t id_;
  FileDescriptor ended_;
  std::optional<ProcessEnd> end_;
  bool moved_from_ = false;
};

}  // namespace kernwright
