// What doctor says of one store, on file systems that fail.
#include "kernwright/store_diagnosis.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <system_error>

#include "fixtures/faulty_file_system.hpp"
#include "kernwright/file_system_facts.hpp"
#include "unit/tools/example_store.hpp"

using namespace kernwright;
using namespace kernwright::tests;
using namespace kernwright::tool;

namespace {

namespace fs = std::filesystem;

struct Diagnosed {
  TemporaryFolder folder;
  fs::path path = folder.path() / "store";
  std::shared_ptr<FaultyFileSystem> files = std::make_shared<FaultyFileSystem>();
  StoreSettings settings;

  Diagnosed() { ExampleStore(path).add(example_artifact()); }
  StoreDiagnosis run() {
    Store store(path, files, Clock::system(), settings);
    return diagnose_store(store, *files, {example_compiler()});
  }
};

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

void check_only_problem(const StoreDiagnosis& store, std::string_view what, std::string_view remedy) {
  REQUIRE(store.problems.size() == 1);
  CHECK_MESSAGE(holds(store.problems[0].what, what), store.problems[0].what);
  CHECK_MESSAGE(holds(store.problems[0].what, store.folder), store.problems[0].what);
  CHECK_MESSAGE(holds(store.problems[0].remedy, remedy), store.problems[0].remedy);
}

}  // namespace

TEST_CASE("store diagnosis: a sound store has no problem") {
  Diagnosed diagnosed;
  const StoreDiagnosis store = diagnosed.run();
  CHECK(store.problems.empty());
  CHECK(store.writable);
  CHECK(store.locks_work == true);
  CHECK(store.entries == 1);
  REQUIRE(store.by_compiler.size() == 1);
  CHECK(store.by_compiler[0].present);
}

TEST_CASE("store diagnosis: a disk that is full or read-only is found by writing to it") {
  for (const int code : {ENOSPC, EROFS, EDQUOT}) {
    Diagnosed diagnosed;
    diagnosed.files->fail_kind(FileOperation::publish, code);
    const StoreDiagnosis store = diagnosed.run();
    CHECK_FALSE(store.writable);
    check_only_problem(store, std::generic_category().message(code), "KERNWRIGHT_CACHE_DIR");
    CHECK(store.entries == 1);
  }
}

TEST_CASE("store diagnosis: a file system without locks is found by locking, and the store is writable all the same") {
  Diagnosed diagnosed;
  diagnosed.files->fail_kind(FileOperation::lock, ENOLCK);
  const StoreDiagnosis store = diagnosed.run();
  CHECK(store.writable);
  CHECK(store.locks_work == false);
  check_only_problem(store, std::generic_category().message(ENOLCK), "nolock");
  for (const auto& each : fs::directory_iterator(diagnosed.path)) CHECK_FALSE(each.path().filename().string().starts_with("."));
}

TEST_CASE("store diagnosis: another user's store is not written to, and that is said") {
  Diagnosed diagnosed;
  diagnosed.files->owner_of_everything = ::geteuid() + 1;
  const StoreDiagnosis store = diagnosed.run();
  CHECK_FALSE(store.own);
  CHECK_FALSE(store.writable);
  CHECK_FALSE(store.probed);
  check_only_problem(store, "belongs to user " + std::to_string(::geteuid() + 1), "KERNWRIGHT_CACHE_SHARED=1");
  diagnosed.settings.shared = true;
  const StoreDiagnosis shared = diagnosed.run();
  CHECK(shared.problems.empty());
  CHECK(shared.writable);
  diagnosed.settings = {.access = StoreAccess::read_only};
  CHECK(diagnosed.run().problems.empty());
}

TEST_CASE("store diagnosis: rights by which others could change what is loaded are problems, of the folder and of the one above it") {
  Diagnosed diagnosed;
  REQUIRE(::chmod(diagnosed.path.c_str(), 0777) == 0);
  check_only_problem(diagnosed.run(), "every user may write to it (mode 0777)", "chmod go-w");
  REQUIRE(::chmod(diagnosed.path.c_str(), 0770) == 0);
  check_only_problem(diagnosed.run(), "its group may write to it", "chmod go-w");
  diagnosed.settings.shared = true;
  CHECK(diagnosed.run().problems.empty());
  diagnosed.settings.shared = false;
  REQUIRE(::chmod(diagnosed.path.c_str(), 0700) == 0);
  REQUIRE(::chmod(diagnosed.folder.path().c_str(), 0777) == 0);
  check_only_problem(diagnosed.run(), "the folder above it", "chmod o-w");
  REQUIRE(::chmod(diagnosed.folder.path().c_str(), 01777) == 0);  // as /tmp: names are their owners'
  CHECK(diagnosed.run().problems.empty());
  REQUIRE(::chmod(diagnosed.folder.path().c_str(), 0700) == 0);
}

TEST_CASE("store diagnosis: a link, a file in the folder's place, and a folder that cannot be read") {
  Diagnosed diagnosed;
  fs::create_directory_symlink(diagnosed.path, diagnosed.folder.path() / "link");
  diagnosed.path = diagnosed.folder.path() / "link";
  StoreDiagnosis store = diagnosed.run();
  CHECK(store.link_to == (diagnosed.folder.path() / "store").string());
  CHECK(store.problems.empty());
  if (::geteuid() == 0) {
    REQUIRE(::lchown(diagnosed.path.c_str(), 12345, 0) == 0);
    check_only_problem(diagnosed.run(), "a link of user 12345", (diagnosed.folder.path() / "store").string());
    REQUIRE(::lchown(diagnosed.path.c_str(), 0, 0) == 0);
  } else {
    MESSAGE("skipped: only root can give a link to another user");
  }
  diagnosed.files->fail_kind(FileOperation::list, EACCES);
  check_only_problem(diagnosed.run(), std::generic_category().message(EACCES), "right to read");
  diagnosed.files->work_again();
  diagnosed.path = diagnosed.folder.path() / "file";
  write_file(diagnosed.path, "");
  store = diagnosed.run();
  CHECK_FALSE(store.writable);
  check_only_problem(store, "is not a folder", "KERNWRIGHT_CACHE_DIR");
}

TEST_CASE("file system facts: names for numbers of statfs, and what a folder here has") {
  CHECK(file_system_name(0xEF53) == "ext4");
  CHECK(file_system_name(0x6969) == "nfs");
  CHECK(file_system_name(0xFF534D42) == "cifs");
  CHECK(file_system_name(0x12345) == "type 0x12345");
  const TemporaryFolder folder;
  const auto facts = file_system_facts(folder.path());
  REQUIRE(facts);
  CHECK(!facts->type.empty());
  // Others write to the disk meanwhile.
  const auto available = static_cast<double>(fs::space(folder.path()).available);
  CHECK(std::abs(static_cast<double>(facts->free.count) - available) <= 0.1 * available);
  CHECK_FALSE(file_system_facts(folder.path() / "none"));
  CHECK(file_system_facts("/proc")->type == "proc");
}
