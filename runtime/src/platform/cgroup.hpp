// What the control groups that this process is in allow it.
#pragma once

#include <filesystem>
#include <optional>

#include "kernwright/units.hpp"

namespace kernwright {

/// The tightest over the process's own group and all above it, of versions 1 and 2. Empty: no limit, or none that can be read.
struct CgroupLimits {
  std::optional<double> cpus;        ///< CPU time a second of wall time.
  std::optional<Bytes> memory_left;  ///< Below the limit, counting as free what the kernel would give back before it kills.
};

/// `proc` is /proc, or a test's folder laid out like it: self/cgroup names the groups, self/mountinfo where their files are.
CgroupLimits read_cgroup_limits(const std::filesystem::path& proc);

}  // namespace kernwright
