// How many compiles at once, from /proc and /sys/fs/cgroup trees that a test lays out.
#include "platform/compile_jobs.hpp"

#include <doctest/doctest.h>

#include <string>

#include "fixtures/temporary_folder.hpp"
#include "platform/cgroup.hpp"

using namespace kernwright;
using tests::TemporaryFolder;
using tests::write_file;

namespace {

/// A machine of 64 processors and 1 TB of memory that nothing limits.
struct Machine {
  TemporaryFolder folder;

  Machine() { meminfo(1'000'000'000); }
  [[nodiscard]] std::string at(const std::string& path) const { return (folder.path() / path).string(); }
  void file(const std::string& path, const std::string& content) const { write_file(folder.path() / path, content); }
  void meminfo(long available_kb) const {
    file("proc/meminfo",
         "MemTotal:       1000000000 kB\nMemFree:          1000 kB\nMemAvailable:   " + std::to_string(available_kb) + " kB\n");
  }
  void group(const std::string& lines) const { file("proc/self/cgroup", lines); }
  /// Mounts version 2 at sys, showing `root` as its top.
  void mount_v2(const std::string& root = "/") const {
    file("proc/self/mountinfo", "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n30 22 0:26 " + root + " " + at("sys") +
                                    " rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  /// Mounts version 1's cpu and memory hierarchies at sys/cpu,cpuacct and sys/memory.
  void mount_v1() const {
    file("proc/self/mountinfo", "33 31 0:30 / " + at("sys/cpu,cpuacct") + " rw - cgroup cgroup rw,cpu,cpuacct\n35 31 0:32 / " +
                                    at("sys/memory") + " rw shared:9 master:2 - cgroup cgroup rw,memory\n");
  }
  [[nodiscard]] CompileJobs jobs(int processors = 64) const { return compile_jobs({folder.path() / "proc", processors}); }
  [[nodiscard]] CgroupLimits limits() const { return read_cgroup_limits(folder.path() / "proc"); }
};

}  // namespace

TEST_CASE("compile jobs: without limits the processors decide") {
  const Machine machine;
  CHECK(machine.jobs(64).count == 64);
  CHECK(machine.jobs(64).reason == "64 processors");
  CHECK(machine.jobs(1).count == 1);
  CHECK(machine.jobs(1).reason == "1 processor");
  CHECK(machine.jobs(5000).count == 1024);
  const TemporaryFolder nothing;
  CHECK(compile_jobs({nothing.path(), 3}).count == 3);
  // The scheduler's own answer, whatever it is here.
  CHECK(compile_jobs({nothing.path(), 0}).count >= 1);
}

TEST_CASE("compile jobs: the quota of version 2, rounded up, and the tightest group on the path") {
  const Machine machine;
  machine.mount_v2();
  machine.group("0::/a/b/c\n");
  machine.file("sys/a/b/c/cpu.max", "max 100000\n");
  CHECK(machine.jobs().count == 64);
  machine.file("sys/a/cpu.max", "150000 100000\n");
  CHECK(machine.jobs().count == 2);
  CHECK(machine.jobs().reason == "a CPU quota of 1.5");
  machine.file("sys/a/b/cpu.max", "400000 50000\n");
  CHECK(machine.jobs().count == 2);  // 8 below 1.5: the outer group is the tighter one
  machine.file("sys/a/b/c/cpu.max", "10000 100000\n");
  CHECK(machine.limits().cpus == doctest::Approx(0.1));
  CHECK(machine.jobs().count == 1);
  machine.group("0::/a\n");
  CHECK(machine.jobs().count == 2);  // not the sibling's or the child's
  CHECK(machine.jobs(1).reason == "1 processor");
}

TEST_CASE("compile jobs: the quota of version 1, where cpu shares its folder") {
  const Machine machine;
  machine.mount_v1();
  machine.group("9:name=systemd:/x\n4:cpu,cpuacct:/docker/abc\n3:memory:/docker/abc\n0::/\n");
  machine.file("sys/cpu,cpuacct/docker/cpu.cfs_quota_us", "-1\n");
  machine.file("sys/cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n");
  CHECK(machine.jobs().count == 64);
  machine.file("sys/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "600000\n");
  machine.file("sys/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "200000\n");
  CHECK(machine.jobs().count == 3);
  machine.file("sys/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
  machine.file("sys/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  CHECK(machine.jobs().count == 2);  // the hierarchy's top
}

TEST_CASE("compile jobs: memory at 240 MB a compile, an eighth kept free, at least one") {
  const Machine machine;
  machine.meminfo(4'000'000);  // kB: 4.096e9 bytes, 3.584e9 of them to use, 14.9 compiles
  CHECK(machine.jobs().count == 14);
  CHECK(machine.jobs().reason == "3906 MiB of memory, 240 MB a compile");
  machine.meminfo(1'000);
  CHECK(machine.jobs().count == 1);

  machine.meminfo(1'000'000'000);
  machine.mount_v2();
  machine.group("0::/pod\n");
  machine.file("sys/pod/memory.max", "2000000000\n");
  machine.file("sys/pod/memory.current", "1500000000\n");
  CHECK(machine.jobs().count == 1);
  // The page cache that the kernel would drop first is not in the way.
  machine.file("sys/pod/memory.stat", "anon 400000000\nfile 1100000000\ninactive_file 1000000000\nactive_file 100000000\n");
  CHECK(machine.limits().memory_left == Bytes{1'500'000'000});
  CHECK(machine.jobs().count == 5);
  machine.file("sys/pod/memory.high", "1800000000\n");
  CHECK(machine.limits().memory_left == Bytes{1'300'000'000});
  machine.file("sys/pod/memory.high", "max\n");
  machine.file("sys/pod/memory.current", "9000000000\n");
  CHECK(machine.limits().memory_left == Bytes{0});
}

TEST_CASE("compile jobs: memory of version 1") {
  const Machine machine;
  machine.mount_v1();
  machine.group("3:memory:/a/b\n");
  machine.file("sys/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");  // none
  machine.file("sys/memory/a/b/memory.usage_in_bytes", "1000\n");
  CHECK_FALSE(machine.limits().memory_left);
  machine.file("sys/memory/a/memory.limit_in_bytes", "1000000000\n");
  machine.file("sys/memory/a/memory.usage_in_bytes", "900000000\n");
  machine.file("sys/memory/a/memory.stat", "cache 800000000\ntotal_inactive_file 600000000\n");
  CHECK(machine.limits().memory_left == Bytes{700'000'000});
  CHECK(machine.jobs().count == 2);
}

TEST_CASE("compile jobs: a container sees its group as the mount's top") {
  const Machine machine;
  machine.mount_v2("/kubepods/pod1");
  machine.file("sys/cpu.max", "300000 100000\n");
  machine.file("sys/inner/cpu.max", "200000 100000\n");
  machine.group("0::/kubepods/pod1\n");
  CHECK(machine.jobs().count == 3);
  machine.group("0::/kubepods/pod1/inner\n");
  CHECK(machine.jobs().count == 2);
  // Groups that the mount does not show: its top is the nearest there is. pod12 is not pod1's 2.
  machine.file("sys/2/cpu.max", "100000 100000\n");
  for (const char* elsewhere : {"0::/kubepods/pod12\n", "0::/\n", "0::/../../inner\n"}) {
    machine.group(elsewhere);
    CHECK(machine.jobs().count == 3);
  }
}

TEST_CASE("compile jobs: files that hold nonsense limit nothing") {
  const Machine machine;
  machine.mount_v2();
  machine.group("0::/a\n");
  machine.file("sys/a/memory.current", "1000\n");
  for (const std::string nonsense :
       {"", "\n", "max", "-5 100000", "100000 0", "1e9 100000", "99999999999999999999 100000", "a b c", "100000"}) {
    machine.file("sys/a/cpu.max", nonsense);
    CHECK_MESSAGE(machine.jobs().count == 64, nonsense);
  }
  for (const std::string nonsense : {"", "\n", "max", "-5", "1e9", "99999999999999999999", "a b c"}) {
    machine.file("sys/a/memory.max", nonsense);
    CHECK_MESSAGE(machine.jobs().count == 64, nonsense);
  }
  machine.group("no colons\n:\n");
  machine.file("proc/self/mountinfo", "30 22 0:26 / /x rw - cgroup2\n-\n\n");
  CHECK(machine.jobs().count == 64);
}

TEST_CASE("compile jobs: blanks in a mount point are written as octal digits") {
  const Machine machine;
  const std::string mount = machine.at("my sys");
  std::string escaped = mount;
  for (std::size_t at = escaped.find(' '); at != std::string::npos; at = escaped.find(' ')) escaped.replace(at, 1, "\\040");
  machine.file("proc/self/mountinfo", "30 22 0:26 / " + escaped + " rw - cgroup2 cgroup2 rw\n");
  machine.group("0::/\n");
  machine.file("my sys/cpu.max", "700000 100000\n");
  CHECK(machine.jobs().count == 7);
}
