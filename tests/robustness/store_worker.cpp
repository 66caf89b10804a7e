// A process that works on a shared store until it is killed: it publishes, reads, evicts, locks, writes fits, in an order that its seed
// decides. It can kill itself with SIGKILL at its n-th system call, before the call or after it, and it can stop in the middle of reading
// an entry. What it reads it compares with what the entry's number says; exit code 3 means that a hit was wrong, 4 that a step failed.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <climits>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "fixtures/interposed_posix_calls.hpp"
#include "robustness/store_contents.hpp"
#include "store/store.hpp"
#include "store/store_paths.hpp"

namespace {

using namespace kernwright;
using namespace kernwright::robustness;

constexpr int kWrong = 3;
constexpr int kFailed = 4;

void say(const char* line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void wait_for_parent() {
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

/// Ends this process at a system call, or waits in the first read.
class DeadlyCalls final : public tests::InterposedPosixCalls {
 public:
  int kill_at = INT_MAX;
  bool kill_after = false;
  bool wait_in_read = false;

  int before(const tests::CallDetails& details) override {
    if (wait_in_read && details.call == tests::SystemCall::read) {
      wait_in_read = false;
      say("reading");
      wait_for_parent();
    }
    current_ = count_++;
    if (current_ == kill_at && !kill_after) die();
    if (kill_after && current_ > kill_at) die();  // that call failed, so nothing came after it
    return 0;
  }
  int after(const tests::CallDetails&) override {
    if (current_ == kill_at) die();
    return 0;
  }
  [[nodiscard]] int count() const noexcept { return count_; }

 private:
  static void die() { ::kill(::getpid(), SIGKILL); }
  int count_ = 0;
  int current_ = -1;
};

class Worker {
 public:
  Worker(const std::filesystem::path& folder, std::shared_ptr<FileSystem> files)
      : folder_(folder), store_(folder, std::move(files), Clock::system()) {}

  void publish(int number) { need(store_.publish(artifact_number(number)), "publish"); }
  Store::Outcome read(int number) {
    const Artifact right = artifact_number(number);
    const auto lookup = store_.read(right.key, right.request, right.compiler);
    const bool wrong =
        lookup.outcome == Store::Outcome::hit && (lookup.artifact->binary != right.binary || lookup.artifact->plans != right.plans);
    if (wrong) leave(kWrong, fmt::format("entry {} was a hit with other bytes", number));
    if (lookup.outcome == Store::Outcome::bad && !damages_) leave(kWrong, "a bad entry: " + lookup.problem);
    return lookup.outcome;
  }
  void build_locked(int number) {
    auto attempt = store_.try_lock_build(artifact_number(number).key, fmt::format("process {}", ::getpid()));
    need(attempt, "lock");
    if (attempt->lock) publish(number);
  }
  void evict(std::uint64_t bytes) { need(store_.evict_to(Bytes{bytes}), "evict"); }
  void write_fit(int number) { need(store_.publish_fit(fit_key_number(number), fit_number(number)), "publish a fit"); }
  void read_fit(int number) {
    std::string problem;
    const auto fit = store_.read_fit(fit_key_number(number), &problem);
    if (!problem.empty()) leave(kWrong, "a bad fit: " + problem);
    if (fit && *fit != fit_number(number)) leave(kWrong, fmt::format("fit {} is another", number));
  }
  void age_stamp(int number) const {
    std::error_code none;
    const auto path = stamp_path(folder_, artifact_number(number).key.hex());
    std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(2), none);
  }
  /// Breaks an entry in its place, as a bad disk would.
  void damage(int number) {
    damages_ = true;
    std::fstream file(entry_path(folder_, artifact_number(number).key.hex()), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(200);
    file.write("damaged", 7);
  }
  void expect_damage() { damages_ = true; }

 private:
  template <class T>
  void need(const Result<T>& outcome, const char* step) const {
    if (!outcome) leave(kFailed, fmt::format("{}: {}", step, outcome.error().text()));
  }
  [[noreturn]] static void leave(int code, const std::string& why) {
    say(why.c_str());
    std::_Exit(code);
  }

  std::filesystem::path folder_;
  Store store_;
  bool damages_ = false;
};

/// Every kind of step, in one order.
void run_script(Worker& worker) {
  worker.publish(2);
  worker.read(2);
  worker.age_stamp(2);
  worker.read(2);
  worker.build_locked(5);
  worker.write_fit(1);
  worker.read_fit(1);
  worker.publish(5);
  worker.evict(20'000);
  worker.read(5);
}

void run_randomly(Worker& worker, std::uint64_t seed, int steps, bool damages) {
  if (damages) worker.expect_damage();
  std::mt19937_64 random(seed);
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<std::uint64_t>(limit)); };
  for (int step = 0; step < steps; ++step) {
    const int number = below(kArtifacts);
    switch (below(damages ? 9 : 8)) {
      case 0: worker.publish(number); break;
      case 1:
      case 2: worker.read(number); break;
      case 3: worker.build_locked(number); break;
      case 4:
        if (below(4) == 0) worker.evict(static_cast<std::uint64_t>(below(300'000)));
        break;
      case 5: worker.write_fit(number); break;
      case 6: worker.read_fit(number); break;
      case 7: worker.age_stamp(number); break;
      default: worker.damage(number); break;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string folder;
  std::string task = "random";
  std::uint64_t seed = 1;
  int steps = 1'000'000;
  int number = 0;
  bool damages = false;
  const auto calls = std::make_shared<DeadlyCalls>();
  CLI::App app("Works on a store until it is killed.");
  app.add_option("store", folder)->required();
  app.add_option("--task", task, "random, script, or read: one entry, waiting in the middle for the end of standard input")
      ->check(CLI::IsMember({"random", "script", "read"}));
  app.add_option("--seed", seed);
  app.add_option("--steps", steps);
  app.add_option("--number", number, "read: the entry's");
  app.add_option("--kill-at", calls->kill_at, "the system call, from 0");
  app.add_flag("--kill-after", calls->kill_after);
  app.add_flag("--damages", damages);
  CLI11_PARSE(app, argc, argv);
  calls->wait_in_read = task == "read";
  Worker worker(folder, make_posix_file_system(calls));
  if (task != "read") say("ready");
  if (task == "random") run_randomly(worker, seed, steps, damages);
  if (task == "script") run_script(worker);
  if (task == "read") say(worker.read(number) == Store::Outcome::hit ? "hit" : "miss");
  fmt::print("done {}\n", calls->count());
  return 0;
}
