// A worker: this program started once more, to be spoken to in lines, and killed where it falls silent.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "platform/spawned_process.hpp"

namespace kernwright::tuning {

struct WorkerCommand {
  std::filesystem::path program;
  std::vector<std::string> arguments;  ///< Without argv[0]. The environment is this process's.
};

/// Not thread-safe. The process is killed when the object goes; it must end by itself where its standard input ends, so that a killed
/// parent leaves nothing behind.
class WorkerProcess {
 public:
  /// not_found and io where it could not be started.
  static Result<std::unique_ptr<WorkerProcess>> start(const WorkerCommand& command);

  /// Writes a line. io where the process no longer reads.
  Result<> send(std::string_view line);

  struct Answer {
    enum class Kind : std::uint8_t {
      line,    ///< `text` is what it said.
      ended,   ///< `text` says how, with the end of what it wrote to standard error.
      silent,  ///< It said nothing for the time; it was killed.
    };
    Kind kind = Kind::ended;
    std::string text;
  };
  /// The next line, or that there is none within the time. After `ended` and `silent` the object is of no more use.
  Answer receive(double seconds);

 private:
  WorkerProcess(SpawnedProcess process, FileDescriptor input, FileDescriptor output, FileDescriptor errors)
      : process_(std::move(process)), input_(std::move(input)), output_(std::move(output)), errors_(std::move(errors)) {}
  [[nodiscard]] std::string last_words() const;

  SpawnedProcess process_;
  FileDescriptor input_, output_, errors_;
  std::string said_;  ///< Read and not handed out yet.
  std::string complained_;
};

}  // namespace kernwright::tuning
