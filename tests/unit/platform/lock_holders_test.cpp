#include <doctest/doctest.h>

#include "fixtures/temporary_folder.hpp"
#include "platform/posix_calls.hpp"

using namespace kernwright;
using namespace kernwright::tests;

TEST_CASE("lock holders: every slot that is held, by slot, with its holder's words, and no other") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "locks";
  PosixCalls calls;
  CHECK(lock_holders(calls, file, 10)->empty());
  CHECK_FALSE(std::filesystem::exists(file));

  const auto files = FileSystem::posix();
  // Not in the order of the slots, and two neighbours.
  auto high = files->try_lock(file, 65'535, "the last");
  auto low = files->try_lock(file, 7, "process 7");
  auto next = files->try_lock(file, 8, "process 8");
  auto released = files->try_lock(file, 100, "gone");
  REQUIRE((high->lock && low->lock && next->lock && released->lock));
  released->lock.reset();

  const auto holders = lock_holders(calls, file, 10);
  REQUIRE_MESSAGE(holders, (holders ? "" : holders.error().text()));
  REQUIRE(holders->size() == 3);
  CHECK(holders->at(0).slot == 7);
  CHECK(holders->at(0).holder == "process 7");
  CHECK(holders->at(1).slot == 8);
  CHECK(holders->at(1).holder == "process 8");
  CHECK(holders->at(2).slot == 65'535);
  CHECK(holders->at(2).holder == "the last");
  CHECK(lock_holders(calls, file, 2)->size() == 2);
  // Looking took no lock.
  low->lock.reset();
  CHECK(files->try_lock(file, 7, "again")->lock);
  next->lock.reset();
  high->lock.reset();
  CHECK(lock_holders(calls, file, 10)->empty());
}

TEST_CASE("file system: a status tells mode and owner, and a name that is a link") {
  const TemporaryFolder folder;
  const auto files = FileSystem::posix();
  write_file(folder.path() / "file", "abc");
  REQUIRE(::chmod((folder.path() / "file").c_str(), 0640) == 0);
  std::filesystem::create_symlink("file", folder.path() / "link");
  std::filesystem::create_symlink("nothing", folder.path() / "broken");
  const auto file = files->status(folder.path() / "file");
  REQUIRE(file);
  CHECK(file->mode == 0640);
  CHECK(file->owner == ::geteuid());
  CHECK_FALSE(file->link);
  const auto link = files->status(folder.path() / "link");
  REQUIRE(link);
  CHECK(link->link);
  CHECK(link->regular_file);
  CHECK(link->size.count == 3);
  CHECK(link->mode == 0640);
  CHECK(files->status(folder.path() / "broken").error().code == ErrorCode::not_found);
}
