// SIGKILL at any point harms nobody else. Workers (store_worker.cpp) publish, read, lock, evict and write fits on one store until they are
// killed: at every system call of a fixed script, before it and after it; at random system calls; after random times. After each round a
// process that was not killed looks at everything: every hit has the bytes that its number says, no entry is bad, every lock is to be had
// at once, and what lies about is the store's own files and unfinished temporary ones, which go once they are an hour old.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <random>
#include <set>
#include <thread>

#include "fixtures/moved_clock.hpp"
#include "fixtures/temporary_folder.hpp"
#include "robustness/process.hpp"
#include "robustness/store_contents.hpp"
#include "store/store.hpp"
#include "store/store_paths.hpp"

using namespace kernwright;
using namespace kernwright::robustness;
using tests::TemporaryFolder;

namespace {

namespace fs = std::filesystem;

/// Everything in the store that is not one of its files, by path from its folder; unfinished files apart.
struct Litter {
  std::vector<std::string> unfinished;
  std::vector<std::string> foreign;
};

Litter litter_of(const fs::path& store) {
  Litter litter;
  if (!fs::exists(store)) return litter;
  std::set<fs::path> own{build_lock_path(store)};
  for (int i = 0; i < kArtifacts; ++i) {
    own.insert(entry_path(store, artifact_number(i).key.hex()));
    own.insert(stamp_path(store, artifact_number(i).key.hex()));
    own.insert(fit_path(store, fit_key_number(i).hex()));
  }
  for (const auto& each : fs::recursive_directory_iterator(store)) {
    const fs::path& path = each.path();
    if (each.is_directory() || own.contains(path)) continue;
    if (path.parent_path() == compilers_folder(store) && key_of(path.filename().native(), kRecordEnding)) continue;
    (is_temporary(path.filename().native()) ? litter.unfinished : litter.foreign).push_back(fs::relative(path, store).native());
  }
  return litter;
}

class Arena {
 public:
  explicit Arena(bool damages = false) : damages_(damages) {}

  Process start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), store_folder().string());
    if (damages_) arguments.emplace_back("--damages");
    ++started_;
    return {KERNWRIGHT_STORE_WORKER, {std::move(arguments), {}, -1, folder_.path() / fmt::format("worker-{}", started_)}};
  }
  /// Waits for its end: killed, or done before it came to that point.
  void expect_killed_or_done(Process& worker) {
    const int status = worker.wait();
    const bool fine = WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0;
    CHECK_MESSAGE(fine, worker.output());
    if (WIFSIGNALED(status)) ++killed_;
    fs::remove(folder_.path() / fmt::format("worker-{}", started_));
  }

  void check_store() {
    Store store(store_folder(), FileSystem::posix(), Clock::system());
    for (int i = 0; i < kArtifacts; ++i) {
      const Artifact right = artifact_number(i);
      {
        const auto attempt = store.try_lock_build(right.key, "the test");
        REQUIRE(attempt);
        CHECK_MESSAGE(attempt->lock != nullptr, attempt->holder);
      }
      const auto lookup = store.read(right.key, right.request, right.compiler);
      if (lookup.outcome == Store::Outcome::hit) {
        ++hits_;
        CHECK(lookup.artifact->binary == right.binary);
      }
      if (!damages_) CHECK_MESSAGE(lookup.outcome != Store::Outcome::bad, lookup.problem);
      std::string problem;
      const auto fit = store.read_fit(fit_key_number(i), &problem);
      CHECK_MESSAGE(problem.empty(), problem);
      if (fit) CHECK(*fit == fit_number(i));
    }
    const Litter litter = litter_of(store_folder());
    CHECK_MESSAGE(litter.foreign.empty(), litter.foreign.front());
    unfinished_.insert(litter.unfinished.begin(), litter.unfinished.end());
  }

  /// Unfinished entries go with the next eviction that finds them old, all else that killed processes left when the store is cleared.
  void check_cleaning() const {
    Store store(store_folder(), FileSystem::posix(), std::make_shared<tests::MovedClock>(Clock::system()->unix_seconds() + 2 * 3600));
    const auto before = store.list();
    REQUIRE(before);
    REQUIRE(store.evict_to(Bytes{UINT64_MAX}));
    for (const std::string& unfinished : litter_of(store_folder()).unfinished) {
      CHECK_MESSAGE(!unfinished.starts_with("entries/"), unfinished);
    }
    CHECK(store.list()->size() == before->size());
    REQUIRE(store.evict_to(Bytes{0}));
    CHECK(store.list()->empty());
    REQUIRE(store.clear());
    if (!fs::exists(store_folder())) return;
    for (const auto& each : fs::recursive_directory_iterator(store_folder())) {
      CHECK_MESSAGE((each.is_directory() || each.path() == build_lock_path(store_folder())), each.path().string());
    }
  }

  void report(const std::string& what) {
    MESSAGE(what << ": " << killed_ << " killed of " << started_ << ", " << hits_ << " hits compared, " << unfinished_.size()
                 << " unfinished files seen");
    CHECK(hits_ > 0);
  }
  [[nodiscard]] int killed() const noexcept { return killed_; }
  [[nodiscard]] fs::path store_folder() const { return folder_.path() / "store"; }

 private:
  TemporaryFolder folder_;
  bool damages_;
  int started_ = 0;
  int killed_ = 0;
  std::size_t hits_ = 0;
  std::set<std::string> unfinished_;
};

std::uint64_t seed_of_run() {
  const char* const given = std::getenv("KERNWRIGHT_ROBUSTNESS_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  MESSAGE("seed " << seed << " (KERNWRIGHT_ROBUSTNESS_SEED repeats the workers' steps)");
  return seed;
}

constexpr int kTogether = 4;

/// `rounds` times so many workers at once; `arguments` of each by its number, `then` what is done once all are at work.
template <class Arguments, class Then>
void kill_in_rounds(Arena& arena, int rounds, Arguments arguments, Then then) {
  for (int round = 0; round < rounds; ++round) {
    std::vector<Process> workers;
    for (int i = 0; i < kTogether; ++i) workers.push_back(arena.start(arguments(round * kTogether + i)));
    then(workers);
    for (Process& worker : workers) arena.expect_killed_or_done(worker);
    arena.check_store();
  }
}

}  // namespace

TEST_CASE("kill: at every system call of a script, before it and after it") {
  Arena arena;
  int calls = 0;
  {
    Process whole = arena.start({"--task", "script"});
    REQUIRE(whole.wait() == 0);
    const std::string said = whole.output();
    calls = static_cast<int>(std::strtol(said.c_str() + said.find("done ") + 5, nullptr, 10));
    REQUIRE(calls > 50);
  }
  for (int number = 0; number < calls; ++number) {
    for (const bool after : {false, true}) {
      CAPTURE(number);
      CAPTURE(after);
      fs::remove_all(arena.store_folder());
      std::vector<std::string> arguments{"--task", "script", "--kill-at", std::to_string(number)};
      if (after) arguments.emplace_back("--kill-after");
      Process worker = arena.start(std::move(arguments));
      arena.expect_killed_or_done(worker);
      arena.check_store();
      arena.check_cleaning();
    }
  }
  CHECK(arena.killed() >= calls);
  arena.report("script");
}

TEST_CASE("kill: at random system calls, four workers at once") {
  std::mt19937_64 random(seed_of_run());
  Arena arena;
  kill_in_rounds(
      arena, 70,
      [&](int) {
        std::vector<std::string> arguments{"--seed", std::to_string(random()), "--kill-at", std::to_string(random() % 400)};
        if (random() % 2 == 0) arguments.emplace_back("--kill-after");
        return arguments;
      },
      [](const std::vector<Process>&) {});
  arena.report("random calls");
  CHECK(arena.killed() == 70 * kTogether);
  arena.check_cleaning();
}

TEST_CASE("kill: after random times, four workers at once") {
  std::mt19937_64 random(seed_of_run());
  for (const bool damages : {false, true}) {
    CAPTURE(damages);
    Arena arena(damages);
    kill_in_rounds(
        arena, 30,
        [&](int) {
          return std::vector<std::string>{"--seed", std::to_string(random())};
        },
        [&](const std::vector<Process>& workers) {
          REQUIRE(wait_until([&] { return std::ranges::all_of(workers, [](const Process& each) { return !each.output().empty(); }); }));
          for (const Process& worker : workers) {
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
            worker.signal(SIGKILL);
          }
        });
    arena.report(damages ? "random times, entries damaged meanwhile" : "random times");
    CHECK(arena.killed() == 30 * kTogether);
    arena.check_cleaning();
  }
}
