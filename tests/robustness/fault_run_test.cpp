// A launch ends with the right kernel whatever the disk does. Each scene (a cold launch, a warm one, a damaged entry, …) is first run with
// its system calls counted, then once for every call and every error: the n-th call fails; it fails although it was done; it moves half its
// bytes; it and all after it fail; all calls of one kind fail. After each: the numbers are right, at most one warning came (one a store),
// no descriptor is left open, and the next process, on a sound disk, is right without a warning and finds no bad entry. Compiles are
// replayed (robustness/replay_backend.hpp); loading and launching are real. The store maps no files, so there is no mmap to fail.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "fixtures/example_artifact.hpp"
#include "fixtures/temporary_folder.hpp"
#include "robustness/numbered_calls.hpp"
#include "robustness/replay_backend.hpp"
#include "robustness/staged_launch.hpp"
#include "store/store.hpp"
#include "store/store_paths.hpp"

using namespace kernwright;
using namespace kernwright::robustness;
using tests::SystemCall;
using tests::TemporaryFolder;

namespace {

namespace fs = std::filesystem;

constexpr std::array kErrors{ENOSPC, EDQUOT, EACCES, EROFS, ESTALE, EIO, EINTR};

struct Scene {
  std::string name;
  /// What is on the disk before: laid out below `folder`, from `warm`, a store that holds all that the launch needs.
  std::function<void(const fs::path& folder, const fs::path& warm)> lay_out = [](const fs::path&, const fs::path&) {};
  std::function<void(RuntimeOptions& options, const fs::path& folder)> set = [](RuntimeOptions&, const fs::path&) {};
  std::size_t warnings = 0;  ///< Those that come without any fault.
  std::size_t stores = 1;    ///< How many can be at fault, each with a warning of its own.
  bool may_miss = false;     ///< Nothing is compiled, so an entry that cannot be read is the error sealed_miss.
};

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

class Stage {
 public:
  Stage() : backend_(make_replay_backend()) {
    // Twice, so that it has stamps as well.
    for (int i = 0; i < 2; ++i) {
      const auto filled = launch(Scene{}, warm(), std::make_shared<PosixCalls>());
      REQUIRE_MESSAGE(filled.kernel, filled.kernel.error().text());
    }
  }

  StagedLaunch launch(const Scene& scene, const fs::path& folder, std::shared_ptr<PosixCalls> calls) {
    return launch_staged(backend_, folder / "store", std::move(calls), [&](RuntimeOptions& options) { scene.set(options, folder); });
  }

  /// The scene's disk anew.
  const fs::path& lay_out(const Scene& scene) {
    fs::remove_all(set());
    fs::create_directories(set());
    scene.lay_out(set(), warm() / "store");
    return set_;
  }

  struct Seen {
    int calls = 0;
    int runs = 0;
    std::set<std::pair<SystemCall, int>> pairs;
  };
  /// The scene with this fault, then without.
  void check(const Scene& scene, const Fault& fault, const Counters& sound, Seen& seen) {
    const fs::path& folder = lay_out(scene);
    const std::size_t descriptors = open_descriptors();
    const auto calls = std::make_shared<NumberedCalls>(fault);
    {
      const StagedLaunch faulty = launch(scene, folder, calls);
      const bool missed = !faulty.kernel && scene.may_miss && faulty.kernel.error().code == ErrorCode::sealed_miss;
      CHECK_MESSAGE((faulty.kernel || missed), (faulty.kernel ? "" : faulty.kernel.error().text()));
      const bool harmless = fault.manner == Fault::Manner::cut_short || (fault.code == EINTR && !fault.kind && !fault.and_all_after);
      const bool once = !fault.kind && !fault.and_all_after;
      const std::size_t most = scene.warnings + (harmless ? 0 : once ? 1 : scene.stores);
      CHECK_MESSAGE(faulty.warnings.size() <= most, fmt::format("{} warnings: {}", faulty.warnings.size(), joined(faulty.warnings)));
      CHECK(faulty.sleeps == 0);  // there is nobody to wait for
      if (harmless) CHECK(faulty.counters.compiles == sound.compiles);
    }
    CHECK(open_descriptors() == descriptors);
    ++seen.runs;
    // Which error it was makes no difference to what is on the disk then.
    if (fault.manner == Fault::Manner::refused && fault.code != EIO) return;
    const StagedLaunch next = launch(scene, folder, std::make_shared<NumberedCalls>());
    CHECK_MESSAGE(next.kernel, (next.kernel ? "" : next.kernel.error().text()));
    CHECK_MESSAGE(next.warnings.size() <= scene.warnings, joined(next.warnings));
    CHECK(next.counters.store_warnings == 0);
  }

  void run(const Scene& scene) {
    CAPTURE(scene.name);
    const auto counting = std::make_shared<NumberedCalls>();
    const StagedLaunch sound = launch(scene, lay_out(scene), counting);
    REQUIRE_MESSAGE(sound.kernel, sound.kernel.error().text());
    REQUIRE_MESSAGE(sound.warnings.size() == scene.warnings, joined(sound.warnings));
    Seen seen;
    seen.calls = counting->count();
    for (int number = 0; number < seen.calls; ++number) {
      CAPTURE(number);
      for (const int code : kErrors) {
        CAPTURE(std::string(std::strerror(code)));
        check(scene, {.number = number, .code = code}, sound.counters, seen);
      }
      check(scene, {.number = number, .manner = Fault::Manner::cut_short}, sound.counters, seen);
      check(scene, {.number = number, .code = EIO, .manner = Fault::Manner::done_all_the_same}, sound.counters, seen);
      check(scene, {.number = number, .and_all_after = true, .code = EIO}, sound.counters, seen);
    }
    std::string kinds;
    for (std::size_t i = 0; i < tests::kSystemCalls; ++i) {
      const auto kind = static_cast<SystemCall>(i);
      if (counting->calls(kind) == 0) continue;
      kinds += fmt::format(" {} {}", counting->calls(kind), tests::name_of(kind));
      CAPTURE(std::string(tests::name_of(kind)));
      for (const int code : kErrors) {
        CAPTURE(std::string(std::strerror(code)));
        check(scene, {.kind = kind, .code = code}, sound.counters, seen);
      }
    }
    MESSAGE(scene.name << ": " << seen.calls << " calls (" << kinds << " ), " << seen.calls * static_cast<int>(kErrors.size())
                       << " pairs of a call and an error, " << seen.runs << " faulty launches");
  }

 private:
  [[nodiscard]] fs::path warm() const { return folder_.path() / "warm"; }
  [[nodiscard]] const fs::path& set() const { return set_; }
  static std::string joined(const std::vector<std::string>& lines) {
    std::string all;
    for (const std::string& line : lines) all += line + "\n";
    return all;
  }

  TemporaryFolder folder_;
  fs::path set_ = folder_.path() / "set";
  std::shared_ptr<Backend> backend_;
};

void copy_store(const fs::path& from, const fs::path& to) {
  fs::copy(from, to, fs::copy_options::recursive);
}

/// The one entry of the kernel: the larger of the two.
fs::path largest_entry(const fs::path& store) {
  fs::path largest;
  for (const auto& entry : fs::recursive_directory_iterator(entries_folder(store))) {
    if (entry.is_regular_file() && (largest.empty() || entry.file_size() > fs::file_size(largest))) largest = entry.path();
  }
  return largest;
}

void age_stamps(const fs::path& store) {
  for (const auto& entry : fs::recursive_directory_iterator(stamps_folder(store))) {
    if (entry.is_regular_file()) fs::last_write_time(entry.path(), fs::last_write_time(entry.path()) - std::chrono::hours(2));
  }
}

}  // namespace

TEST_CASE("fault run: a cold launch") {
  Stage().run({.name = "cold"});
}

TEST_CASE("fault run: a warm launch, with stamps to write and to renew") {
  Stage stage;
  stage.run({.name = "warm", .lay_out = [](const fs::path& folder, const fs::path& warm) {
               copy_store(warm, folder / "store");
               fs::remove_all(stamps_folder(folder / "store"));
             }});
  stage.run({.name = "warm, an hour later", .lay_out = [](const fs::path& folder, const fs::path& warm) {
               copy_store(warm, folder / "store");
               age_stamps(folder / "store");
             }});
}

TEST_CASE("fault run: a damaged entry is replaced") {
  Stage stage;
  stage.run({.name = "damaged entry",
             .lay_out =
                 [](const fs::path& folder, const fs::path& warm) {
                   copy_store(warm, folder / "store");
                   const fs::path entry = largest_entry(folder / "store");
                   fs::resize_file(entry, fs::file_size(entry) / 2);
                 },
             .warnings = 1});
  stage.run({.name = "a folder in an entry's place",
             .lay_out =
                 [](const fs::path& folder, const fs::path& warm) {
                   copy_store(warm, folder / "store");
                   const fs::path entry = largest_entry(folder / "store");
                   fs::remove(entry);
                   tests::write_file(entry / "something", "of somebody's");
                 },
             .warnings = 1});
}

TEST_CASE("fault run: a read-only store in front") {
  const auto in_front = [](RuntimeOptions& options, const fs::path& folder) {
    options.read_only_stores = std::vector<fs::path>{folder / "front"};
  };
  Stage stage;
  stage.run({.name = "all in the read-only store",
             .lay_out = [](const fs::path& folder, const fs::path& warm) { copy_store(warm, folder / "front"); },
             .set = in_front,
             .stores = 2});
  stage.run({.name = "half in the read-only store",
             .lay_out =
                 [](const fs::path& folder, const fs::path& warm) {
                   copy_store(warm, folder / "front");
                   fs::remove(largest_entry(folder / "front"));
                   fs::remove_all(fits_folder(folder / "front"));
                 },
             .set = in_front,
             .stores = 2});
}

TEST_CASE("fault run: a store that is full by its own limit") {
  constexpr std::size_t kFiller = 20'000;
  constexpr int kFillers = 4;
  // Filled once and copied for each run: a publish waits for the disk.
  const TemporaryFolder filled;
  std::vector<fs::path> entries;
  {
    Store store(filled.path() / "store", FileSystem::posix(), Clock::system());
    for (int i = 1; i <= kFillers; ++i) {
      const Artifact filler = tests::example_artifact_with(16 * i, kFiller);
      REQUIRE(store.publish(filler));
      if (i == 1) CHECK(store.read(filler.key, filler.request, filler.compiler).outcome == Store::Outcome::hit);
      entries.push_back(fs::relative(entry_path(store.folder(), filler.key.hex()), store.folder()));
    }
  }
  Stage().run({.name = "eviction",
               .lay_out =
                   [&](const fs::path& folder, const fs::path&) {
                     copy_store(filled.path() / "store", folder / "store");
                     const auto old = fs::file_time_type::clock::now() - std::chrono::hours(2);
                     for (const fs::path& entry : entries) fs::last_write_time(folder / "store" / entry, old);
                     const fs::path leftover = (folder / "store" / entries.back()).parent_path() / ".x.kwe.1.2.tmp";
                     tests::write_file(leftover, "half an ent");
                     fs::last_write_time(leftover, old);
                   },
               .set = [](RuntimeOptions& options, const fs::path&) { options.store_limit = Bytes{2 * kFiller}; }});
}

TEST_CASE("fault run: a sealed launch ends with the right kernel or says what is missing") {
  Stage().run({.name = "sealed",
               .lay_out = [](const fs::path& folder, const fs::path& warm) { copy_store(warm, folder / "store"); },
               .set = [](RuntimeOptions& options, const fs::path&) { options.sealed = true; },
               .may_miss = true});
}
