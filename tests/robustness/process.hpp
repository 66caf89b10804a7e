// Child processes that wait for one another, can be signalled, and say what they did.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace kernwright::robustness {

/// Processes that read their standard input wait until it is opened; then all go on at once.
class Barrier {
 public:
  Barrier();
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;
  ~Barrier();
  /// To be a child's standard input. Nothing is ever written to it: the end of the stream is the signal.
  [[nodiscard]] int input() const noexcept { return ends_[0]; }
  void open() noexcept;

 private:
  int ends_[2] = {-1, -1};
};

struct ProcessOptions {
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  ///< On top of this process's.
  int input = -1;                                  ///< A descriptor for its standard input; -1: /dev/null.
  std::filesystem::path output;                    ///< A file for its standard output; what it says on standard error goes behind it.
};

/// Killed where it still runs when the object goes. Throws std::runtime_error where it cannot be started.
class Process {
 public:
  Process(const std::filesystem::path& program, const ProcessOptions& options);
  Process(Process&& other) noexcept;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  Process& operator=(Process&&) = delete;
  ~Process();

  [[nodiscard]] pid_t id() const noexcept { return id_; }
  void signal(int number) const;
  /// Whether it is over.
  bool ended();
  /// Its end, as waitpid(2) says it; killed where it has not come after four minutes.
  int wait();
  [[nodiscard]] std::string output() const;

 private:
  pid_t id_ = -1;
  bool running_ = false;
  int status_ = 0;
  std::filesystem::path output_;
};

/// Asks every few milliseconds; false where it has not come true after two.
bool wait_until(const std::function<bool()>& condition);

}  // namespace kernwright::robustness
