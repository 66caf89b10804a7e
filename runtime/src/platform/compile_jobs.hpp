// How many compiles this machine bears at once.
#pragma once

#include <filesystem>
#include <string>

namespace kernwright {

/// What the answer is read from. Tests lay out a folder of their own and name a number.
struct MachineView {
  std::filesystem::path proc = "/proc";
  int processors = 0;  ///< That this process may run on; 0: ask the scheduler.
};

struct CompileJobs {
  int count = 1;       ///< At least 1.
  std::string reason;  ///< What decided it: "2 processors", "a CPU quota of 1.5", "900 MiB of memory, 240 MB a compile".
};

/// The least of the processors that the scheduler gives, the CPU quota (rounded up: a share of a processor would idle otherwise) and what
/// memory holds: what is available on the machine and below the control groups' limits, less an eighth, at 240 MB a compile. Reads a few
/// files of /proc and /sys/fs/cgroup; what cannot be read does not limit.
CompileJobs compile_jobs(const MachineView& machine = {});

}  // namespace kernwright
