#include "platform/compile_jobs.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

#include "platform/cgroup.hpp"

namespace kernwright {
namespace {

constexpr std::uint64_t kBytesPerCompile = 240'000'000;  // NVRTC 13.0 takes 80 to 240 MB
constexpr int kMostJobs = 1024;

struct FreeCpuSet {
  void operator()(cpu_set_t* set) const noexcept { CPU_FREE(set); }
};

/// Of the scheduler's mask, which also holds what cpusets take away; the standard library's count where it cannot be read.
int processors_of_process() {
  // The kernel refuses a mask smaller than its own with EINVAL.
  for (std::size_t processors = 1024; processors <= 1U << 20; processors *= 4) {
    const std::unique_ptr<cpu_set_t, FreeCpuSet> set(CPU_ALLOC(processors));
    const std::size_t bytes = CPU_ALLOC_SIZE(processors);
    if (set == nullptr) break;
    if (::sched_getaffinity(0, bytes, set.get()) == 0) return CPU_COUNT_S(bytes, set.get());
    if (errno != EINVAL) break;
  }
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

/// MemAvailable of meminfo: "MemAvailable:   24093000 kB".
std::optional<Bytes> available_memory(const std::filesystem::path& proc) {
  std::ifstream file(proc / "meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    std::uint64_t value = 0;
    if (words >> key >> value && key == "MemAvailable:") return kibibytes(value);
  }
  return std::nullopt;
}

int jobs_in(Bytes memory) {
  const std::uint64_t headroom = memory.count / 8;
  return static_cast<int>(std::clamp<std::uint64_t>((memory.count - headroom) / kBytesPerCompile, 1, kMostJobs));
}

}  // namespace

CompileJobs compile_jobs(const MachineView& machine) {
  CompileJobs jobs;
  jobs.count = std::clamp(machine.processors > 0 ? machine.processors : processors_of_process(), 1, kMostJobs);
  jobs.reason = fmt::format("{} processor{}", jobs.count, jobs.count == 1 ? "" : "s");
  const auto limit = [&](int count, std::string reason) {
    if (count < jobs.count) jobs = {count, std::move(reason)};
  };
  const CgroupLimits limits = read_cgroup_limits(machine.proc);
  if (limits.cpus) {
    limit(static_cast<int>(std::clamp(std::ceil(*limits.cpus), 1.0, double{kMostJobs})),
          fmt::format("a CPU quota of {:.3g}", *limits.cpus));
  }
  auto memory = available_memory(machine.proc);
  if (limits.memory_left) memory = std::min(memory.value_or(*limits.memory_left), *limits.memory_left);
  if (memory) limit(jobs_in(*memory), fmt::format("{} MiB of memory, 240 MB a compile", memory->count >> 20));
  return jobs;
}

}  // namespace kernwright
