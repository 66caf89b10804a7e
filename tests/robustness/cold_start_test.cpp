// What a fleet that starts at once can rely on. Sixteen processes wait at a barrier and then launch one kernel from one empty store. Each
// compares its numbers with plain arithmetic; compiles are counted by the compiler itself, a script that writes down each of its runs.
//   - one compile a key, also where the process that holds the lock is killed with SIGKILL in the middle of its compile (then one more);
//   - no locks, a full disk, a disk mounted read-only, a holder that was stopped: all answers right, one warning a process, bounded waits.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <csignal>
#include <numeric>

#include "fixtures/temporary_folder.hpp"
#include "robustness/fleet.hpp"
#include "robustness/small_disk.hpp"
#include "robustness/wrapper_compiler.hpp"

using namespace kernwright;
using namespace kernwright::robustness;
using tests::TemporaryFolder;

namespace {

constexpr int kKeys = 2;  // a table of plans and a kernel

struct Scene {
  TemporaryFolder folder;
  WrapperCompiler compiler;
  explicit Scene(const WrapperCompiler::Manner& manner = {}) : compiler(folder.path() / "compiler", manner) {}
  [[nodiscard]] FleetOptions fleet(std::vector<std::string> arguments = {}, std::size_t processes = 16) const {
    return {folder.path(), folder.path() / "store", compiler.program(), std::move(arguments), processes, {}};
  }
};

void check_right(const std::vector<nlohmann::json>& reports, std::size_t processes) {
  CHECK(reports.size() == processes);
  for (const auto& report : reports) CHECK_MESSAGE(report.at("right") == true, report.dump());
}

void check_warnings(const std::vector<nlohmann::json>& reports, std::size_t each, const std::string& word = "") {
  for (const auto& report : reports) {
    const auto& warnings = report.at("warnings");
    CHECK_MESSAGE(warnings.size() == each, report.dump());
    for (const auto& warning : warnings) CHECK_MESSAGE(warning.get<std::string>().find(word) != std::string::npos, warning.dump());
  }
}

void check_compiles(const WrapperCompiler& compiler, int fewest, int most) {
  const auto counts = compiler.runs_by_source();
  CHECK(counts.size() == kKeys);
  for (const auto& [what, runs] : counts) {
    CAPTURE(what);
    CHECK(runs >= fewest);
    CHECK(runs <= most);
  }
}

std::uint64_t sum_of(const std::vector<nlohmann::json>& reports, const char* counter) {
  return std::accumulate(reports.begin(), reports.end(), std::uint64_t{0},
                         [&](std::uint64_t sum, const nlohmann::json& report) { return sum + report.value(counter, std::uint64_t{0}); });
}

/// The process that compiles, once it is in the middle of it.
WrapperCompiler::Run wait_for_holder(const WrapperCompiler& compiler) {
  REQUIRE(wait_until([&] { return !compiler.held().empty(); }));
  return compiler.held().front();
}

}  // namespace

TEST_CASE("cold start: sixteen processes compile each key once") {
  const Scene scene;
  Fleet fleet(scene.fleet());
  fleet.go();
  const auto reports = fleet.reports();
  check_right(reports, 16);
  check_warnings(reports, 0);
  check_compiles(scene.compiler, 1, 1);
  CHECK(sum_of(reports, "compiles") == kKeys);
  CHECK(sum_of(reports, "store_hits") == kKeys * 15);
}

TEST_CASE("cold start: another process takes over at once where the one that compiles is killed") {
  for (const bool kernel : {true, false}) {
    CAPTURE(kernel);
    const Scene scene({.hold_kernel = kernel, .hold_plans = !kernel});
    Fleet fleet(scene.fleet());
    fleet.go();
    const auto holder = wait_for_holder(scene.compiler);
    fleet.process(holder.caller).signal(SIGKILL);
    // Taken over while the dead one's compiler still runs: the kernel freed the lock, not that compiler's end.
    const auto taken_over = [&] { return scene.compiler.runs_by_source()[holder.what] == 2; };
    CHECK(wait_until(taken_over));
    ::kill(-holder.process, SIGKILL);
    const auto reports = fleet.reports();
    check_right(reports, 15);
    check_warnings(reports, 0);  // nobody came to the end of its wait
    check_compiles(scene.compiler, 1, 2);
  }
}

TEST_CASE("cold start: without locks each process compiles, says so once, and is right") {
  const Scene scene({.meet = 16});
  Fleet fleet(scene.fleet({"--fault", "no-locks"}));
  fleet.go();
  const auto reports = fleet.reports();
  check_right(reports, 16);
  check_warnings(reports, 1, "No locks available");
  check_compiles(scene.compiler, 16, 16);
  CHECK(scene.compiler.alone().empty());
  // What they wrote is there for the next ones, who need no lock.
  Fleet next(scene.fleet({"--fault", "no-locks"}, 2));
  next.go();
  const auto hits = next.reports();
  check_right(hits, 2);
  check_warnings(hits, 0);
  CHECK(sum_of(hits, "compiles") == 0);
}

TEST_CASE("cold start: on a full disk each process compiles beside the others, says so once, and is right") {
  struct Disk {
    std::string what;
    WrapperCompiler::Manner manner;
    std::vector<std::string> arguments;
  };
  // Where even the lock file does not fit nobody waits; where it just fits, they wait for the first one alone, which finds out for all.
  const std::vector<Disk> disks{{"no room at all", {.meet = 16}, {"--fault", "full-disk", "--bytes", "0"}},
                                {"room for locks", {.meet_from = 2, .meet = 3}, {"--fault", "full-disk", "--bytes", "128"}},
                                {"room for an unfinished entry", {.meet_from = 2, .meet = 3}, {"--fault", "full-disk", "--bytes", "1500"}},
                                {"read-only", {.meet = 16}, {"--fault", "read-only-disk"}}};
  for (const Disk& disk : disks) {
    CAPTURE(disk.what);
    const Scene scene(disk.manner);
    std::filesystem::create_directories(scene.fleet().store);
    Fleet fleet(scene.fleet(disk.arguments));
    fleet.go();
    const auto reports = fleet.reports();
    check_right(reports, 16);
    check_warnings(reports, 1, disk.what == "read-only" ? "Read-only file system" : "No space left");
    check_compiles(scene.compiler, 16, 16);
    CHECK(scene.compiler.alone().empty());
  }
}

TEST_CASE("cold start: the same on a real disk that is full") {
  const Scene scene({.meet_from = 2, .meet = 3});
  auto options = scene.fleet();
  std::filesystem::create_directories(options.store);
  // Two pages: one for the lock file, one for the compiler's record, none for an entry.
  const SmallDisk disk(options.store, 8192, scene.folder.path() / "disk");
  if (!disk.problem().empty()) {
    MESSAGE("skipped: " << disk.problem());
    return;
  }
  options.prefix = disk.prefix();
  Fleet fleet(options);
  fleet.go();
  const auto reports = fleet.reports();
  check_right(reports, 16);
  check_warnings(reports, 1, "No space left");
  check_compiles(scene.compiler, 16, 16);
  CHECK(scene.compiler.alone().empty());
}

TEST_CASE("cold start: a holder that was stopped is waited for no longer than the limit") {
  const Scene scene({.hold_plans = true});
  Fleet fleet(scene.fleet({"--lock-wait", "0.5"}, 6));
  fleet.go();
  const auto holder = wait_for_holder(scene.compiler);
  fleet.process(holder.caller).signal(SIGSTOP);
  // The others have all begun to compile by themselves while it stands still.
  CHECK(wait_until([&] { return scene.compiler.runs_by_source()[holder.what] >= 2; }));
  CHECK(wait_until([&] { return scene.compiler.runs_by_source().size() == kKeys; }));
  fleet.process(holder.caller).signal(SIGCONT);
  scene.compiler.release();
  const auto reports = fleet.reports();
  check_right(reports, 6);
  std::size_t warned = 0;
  for (const auto& report : reports) {
    const auto& warnings = report.at("warnings");
    CHECK(warnings.size() <= 1);
    warned += warnings.size();
    for (const auto& warning : warnings) {
      CHECK_MESSAGE(warning.get<std::string>().find(fmt::format("process {} on ", holder.caller)) != std::string::npos, warning.dump());
    }
    if (report.at("process") == holder.caller) CHECK(warnings.empty());
  }
  CHECK(warned >= 1);
}

TEST_CASE("cold start: a source that does not compile is not compiled by one process after the other") {
  const Scene scene({.meet_from = 2, .meet = 3, .fail = true});
  Fleet fleet(scene.fleet());
  fleet.go();
  const auto reports = fleet.reports();
  CHECK(reports.size() == 16);
  for (const auto& report : reports) {
    CHECK(report.at("right") == false);
    CHECK(report.at("error").get<std::string>().find("told to fail") != std::string::npos);
    CHECK(report.at("warnings").empty());
  }
  CHECK(scene.compiler.alone().empty());
}
