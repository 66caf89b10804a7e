// A C++ compiler that writes down each of its runs, and can be told to dawdle.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace kernwright::robustness {

/// A script in a folder of the test's. What it is asked to compile it knows by the sum of all files and flags that it is given: a key that
/// owes nothing to the library's own. What it made once it keeps in KERNWRIGHT_ROBUSTNESS_OBJECTS and copies the next time, so that a run
/// costs milliseconds; the counting does not depend on that.
class WrapperCompiler {
 public:
  struct Manner {
    /// From the run with this number (from 1) of one thing, a run goes on only once `meet` runs of that thing have begun.
    int meet_from = 1;
    int meet = 0;
    bool hold_kernel = false;  ///< The first compile of a kernel waits until release().
    bool hold_plans = false;   ///< The first compile of a table of plans does.
    bool fail = false;         ///< Each compile ends with an error.
  };
  WrapperCompiler(std::filesystem::path folder, const Manner& manner);

  [[nodiscard]] std::filesystem::path program() const { return folder_ / "compiler"; }
  void release() const;

  struct Run {
    std::string what;   ///< The sum of its sources and flags.
    pid_t caller = 0;   ///< The process that asked for it.
    pid_t process = 0;  ///< Its own, which leads its process group.
  };
  [[nodiscard]] std::vector<Run> runs() const { return events("start"); }
  /// Those that wait for release().
  [[nodiscard]] std::vector<Run> held() const { return events("held"); }
  /// Those that waited for others in vain, for a minute.
  [[nodiscard]] std::vector<Run> alone() const { return events("alone"); }
  [[nodiscard]] std::map<std::string, int> runs_by_source() const;

 private:
  [[nodiscard]] std::vector<Run> events(const std::string& kind) const;
  std::filesystem::path folder_;
};

}  // namespace kernwright::robustness
