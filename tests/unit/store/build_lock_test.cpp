#include "store/build_lock.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include "fixtures/example_artifact.hpp"
#include "fixtures/faulty_file_system.hpp"
#include "fixtures/log_lines.hpp"
#include "fixtures/moved_clock.hpp"
#include "fixtures/temporary_folder.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

EntryKey key_of_tile(int block_m) {
  return example_artifact_with(block_m, 10).key;
}

}  // namespace

TEST_CASE("build lock: free at once, and held against a second one until it is gone") {
  const TemporaryFolder folder;
  LogLines lines;
  MovedClock clock;
  Store store(folder.path() / "store", FileSystem::posix(), Clock::system());
  BuildLock first = lock_build(store, key_of_tile(16), "building", 10, clock, lines.logger());
  CHECK(first.held);
  CHECK_FALSE(first.waited);
  CHECK(clock.sleeps() == 0);
  // Another key's lock is another one.
  CHECK(lock_build(store, key_of_tile(32), "building", 10, clock, lines.logger()).held);

  const BuildLock second = lock_build(store, key_of_tile(16), "building X", 10, clock, lines.logger());
  CHECK_FALSE(second.held);
  CHECK(second.waited);
  CHECK(second.problem.find("process " + std::to_string(::getpid()) + " on ") != std::string::npos);
  CHECK(second.problem.find("building X") != std::string::npos);
  CHECK(clock.monotonic_seconds() >= 10);
  CHECK(clock.monotonic_seconds() < 10.1);
  CHECK(lines.containing("waiting for process " + std::to_string(::getpid())) == 1);

  first.held.reset();
  const BuildLock third = lock_build(store, key_of_tile(16), "building", 10, clock, lines.logger());
  CHECK(third.held);
  CHECK_FALSE(third.waited);
}

TEST_CASE("build lock: where locks do not work there is none, at once, with the reason") {
  const TemporaryFolder folder;
  LogLines lines;
  MovedClock clock;
  const auto files = std::make_shared<FaultyFileSystem>();
  files->fail_kind(FileOperation::lock, ENOLCK);
  Store store(folder.path() / "store", files, Clock::system());
  const BuildLock lock = lock_build(store, key_of_tile(16), "building", 10, clock, lines.logger());
  CHECK_FALSE(lock.held);
  CHECK_FALSE(lock.waited);
  CHECK(lock.problem.find(std::generic_category().message(ENOLCK)) != std::string::npos);
  CHECK(clock.sleeps() == 0);
}
