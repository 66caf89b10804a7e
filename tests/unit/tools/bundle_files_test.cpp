// Bundles and files: full disks, files that change, names that are taken. What was there stays, and nothing is left behind.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>

#include "fixtures/example_bundle.hpp"
#include "fixtures/example_store.hpp"
#include "fixtures/faulty_file_system.hpp"
#include "fixtures/faulty_posix_calls.hpp"
#include "support/bundle/output_file.hpp"
#include "support/bundle/pack.hpp"
#include "support/bundle/unpack.hpp"

using namespace kernwright;
using namespace kernwright::support;
using namespace kernwright::tests;

namespace {

namespace fs = std::filesystem;

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

Result<Packed> pack(const fs::path& store, const fs::path& file, const std::shared_ptr<PosixCalls>& calls = std::make_shared<PosixCalls>(),
                    const BundleLimits& limits = {}) {
  const auto files = FileSystem::posix();
  return pack_bundle({*files, store, {}}, file, calls, limits);
}

Result<Unpacked> unpack(const fs::path& file, const fs::path& folder, const std::shared_ptr<FileSystem>& files = FileSystem::posix(),
                        const std::shared_ptr<PosixCalls>& calls = std::make_shared<PosixCalls>()) {
  Store store(folder, files, Clock::system());
  return unpack_bundle(file, store, *files, calls);
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().native());
  std::ranges::sort(names);
  return names;
}

/// Real calls; something happens before a file of this name is opened for the nth time.
class OpenHook final : public PosixCalls {
 public:
  OpenHook(std::string name, int countdown, std::function<void()> action)
      : name_(std::move(name)), countdown_(countdown), action_(std::move(action)) {}
  int open(const char* path, int flags, mode_t mode) override {
    if (fs::path(path).filename() == name_ && --countdown_ == 0) action_();
    return PosixCalls::open(path, flags, mode);
  }

 private:
  std::string name_;
  int countdown_;
  std::function<void()> action_;
};

/// Real calls; something happens once the first reading of a file came to its end.
class EndHook final : public PosixCalls {
 public:
  explicit EndHook(std::function<void()> action) : action_(std::move(action)) {}
  ssize_t read(int descriptor, void* bytes, std::size_t size) override {
    const ssize_t count = PosixCalls::read(descriptor, bytes, size);
    if (count == 0 && action_) std::exchange(action_, nullptr)();
    return count;
  }

 private:
  std::function<void()> action_;
};

}  // namespace

TEST_CASE("bundle files: a bundle that cannot be written leaves the old file and nothing beside it") {
  const TemporaryFolder folder;
  REQUIRE(fill_example_store(folder.path() / "store"));
  fs::create_directories(folder.path() / "out");
  const fs::path file = folder.path() / "out" / "bundle";
  write_file(file, "the old one");
  struct Failure {
    const char* call;
    int code;
    const char* part;
  };
  for (const Failure& failure :
       {Failure{"open", EACCES, "cannot create"}, Failure{"write", ENOSPC, "free some space"}, Failure{"write", EDQUOT, "free some space"},
        Failure{"write", EFBIG, "--target"}, Failure{"write", EIO, "cannot write"}, Failure{"fsync", ENOSPC, "cannot flush"},
        Failure{"close", EIO, "cannot close"}, Failure{"rename", EACCES, "cannot rename"}}) {
    CAPTURE(failure.call);
    const auto calls = std::make_shared<FaultyPosixCalls>();
    calls->failing = failure.call;
    calls->code = failure.code;
    const auto packed = pack(folder.path() / "store", file, calls);
    REQUIRE_FALSE(packed);
    CHECK(packed.error().code == ErrorCode::io);
    CHECK_MESSAGE(holds(packed.error().message, failure.part), packed.error().message);
    CHECK(holds(packed.error().message, (folder.path() / "out").native()));
    CHECK(holds(packed.error().message, std::generic_category().message(failure.code)));
    CHECK(read_file(file) == "the old one");
    CHECK(names_in(folder.path() / "out") == std::vector<std::string>{"bundle"});
  }
}

TEST_CASE("bundle files: short and interrupted calls make the same bundle") {
  const TemporaryFolder folder;
  REQUIRE(fill_example_store(folder.path() / "store"));
  REQUIRE(pack(folder.path() / "store", folder.path() / "1"));
  const auto calls = std::make_shared<FaultyPosixCalls>();
  calls->longest_write = 7;
  calls->longest_read = 5;
  calls->interruptions = 20;
  REQUIRE(pack(folder.path() / "store", folder.path() / "2", calls));
  CHECK(calls->interrupted == 20);
  CHECK(read_file(folder.path() / "1") == read_file(folder.path() / "2"));
  calls->interrupted = 0;
  REQUIRE(unpack(folder.path() / "2", folder.path() / "copy", FileSystem::posix(), calls));
  CHECK(snapshot(folder.path() / "copy") == snapshot(folder.path() / "store"));
}

TEST_CASE("bundle files: what may stand at a bundle's name") {
  const TemporaryFolder folder;
  const fs::path store = folder.path() / "store";
  REQUIRE(fill_example_store(store));
  const auto refused = [&](const fs::path& file, ErrorCode code, std::string_view part) {
    const auto packed = pack(store, file);
    REQUIRE_FALSE(packed);
    CHECK(packed.error().code == code);
    CHECK_MESSAGE(holds(packed.error().message, part), packed.error().message);
  };
  refused(folder.path(), ErrorCode::invalid_argument, "is a folder");
  refused("/dev/null", ErrorCode::invalid_argument, "is a device or pipe");
  refused(folder.path() / "no" / "such", ErrorCode::not_found, "its folder must exist");
  write_file(folder.path() / "file", "");
  refused(folder.path() / "file" / "below", ErrorCode::io, "is a file where a folder should be");
  REQUIRE(::mkfifo((folder.path() / "fifo").c_str(), 0600) == 0);
  refused(folder.path() / "fifo", ErrorCode::invalid_argument, "is a device or pipe");
  // A link stays a link: what it names is replaced.
  fs::create_directories(folder.path() / "elsewhere");
  write_file(folder.path() / "elsewhere" / "bundle", "old");
  fs::create_symlink("elsewhere/bundle", folder.path() / "link");
  REQUIRE(pack(store, folder.path() / "link"));
  CHECK(fs::is_symlink(folder.path() / "link"));
  CHECK(fs::file_size(folder.path() / "elsewhere" / "bundle") > 500);
  // A name without a folder is one in the working folder, under the umask's rights.
  REQUIRE(pack(store, folder.path() / "plain"));
  CHECK((fs::status(folder.path() / "plain").permissions() & fs::perms::owner_all) == (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE("bundle files: a store that changes while it is packed is no bundle") {
  const TemporaryFolder folder;
  const fs::path store = folder.path() / "store";
  REQUIRE(fill_example_store(store));
  const std::string hex = example_artifacts()[0].key.hex();
  const fs::path entry = store / "entries" / hex.substr(0, 2) / (hex + ".kwe");
  for (const bool removed : {true, false}) {
    const auto files = make_posix_file_system(
        std::make_shared<OpenHook>(entry.filename(), 2, [&] { removed ? void(fs::remove(entry)) : write_file(entry, "half"); }));
    const auto packed = pack_bundle({*files, store, {}}, folder.path() / "bundle", std::make_shared<PosixCalls>());
    REQUIRE_FALSE(packed);
    CHECK(packed.error().code == ErrorCode::io);
    CHECK_MESSAGE(holds(packed.error().message, "changed while it was packed: entry 'entries/"), packed.error().message);
    CHECK(names_in(folder.path()) == std::vector<std::string>{"store"});
    REQUIRE(fill_example_store(store));
  }
}

TEST_CASE("bundle files: a store that cannot be read whole is not packed") {
  const TemporaryFolder folder;
  REQUIRE(fill_example_store(folder.path() / "store"));
  FaultyFileSystem files;
  files.fail_kind(FileOperation::list, EACCES);
  const auto packed = pack_bundle({files, folder.path() / "store", {}}, folder.path() / "bundle", std::make_shared<PosixCalls>());
  REQUIRE_FALSE(packed);
  CHECK(packed.error().code == ErrorCode::io);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"store"});
}

TEST_CASE("bundle files: what would pass the limits is not packed") {
  const TemporaryFolder folder;
  REQUIRE(fill_example_store(folder.path() / "store"));
  const auto calls = std::make_shared<PosixCalls>();
  for (const BundleLimits& limits : {BundleLimits{.members = 8}, BundleLimits{.archive = {5000}}}) {
    const auto packed = pack(folder.path() / "store", folder.path() / "bundle", calls, limits);
    REQUIRE_FALSE(packed);
    CHECK(packed.error().code == ErrorCode::invalid_argument);
    CHECK_MESSAGE(holds(packed.error().message, "9 members"), packed.error().message);
    CHECK(holds(packed.error().message, "--target"));
    CHECK(names_in(folder.path()) == std::vector<std::string>{"store"});
  }
  CHECK(pack(folder.path() / "store", folder.path() / "bundle", calls, {.members = 9}));
}

TEST_CASE("bundle files: a bundle that is not there, or no file, is said to be so") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo((folder.path() / "fifo").c_str(), 0600) == 0);
  const auto refused = [&](const char* name, ErrorCode code, std::string_view part) {
    const auto unpacked = unpack(folder.path() / name, folder.path() / "store");
    REQUIRE_FALSE(unpacked);
    CHECK(unpacked.error().code == code);
    CHECK_MESSAGE(holds(unpacked.error().message, part), unpacked.error().message);
    CHECK(holds(unpacked.error().message, (folder.path() / name).native()));
    CHECK_FALSE(fs::exists(folder.path() / "store"));
  };
  refused("absent", ErrorCode::not_found, "No such file");
  refused("", ErrorCode::io, "it is a folder");
  refused("fifo", ErrorCode::io, "it is a device or pipe");
  write_file(folder.path() / "bundle", bundle_file(example_bundle()));
  const auto calls = std::make_shared<FaultyPosixCalls>();
  calls->failing = "read";
  calls->code = EIO;
  const auto unpacked = unpack(folder.path() / "bundle", folder.path() / "store", FileSystem::posix(), calls);
  REQUIRE_FALSE(unpacked);
  CHECK(unpacked.error().code == ErrorCode::io);
  CHECK_FALSE(fs::exists(folder.path() / "store"));
}

TEST_CASE("bundle files: a bundle that changes between the check and the merge is not merged further") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "bundle";
  auto other = example_bundle();
  other[4].content = other[4].content.replace(other[4].content.find("too large"), 9, "different");
  // A valid bundle with another fit, and one that is damaged.
  for (const std::string& later : {bundle_file(other), bundle_file(other).substr(0, 900)}) {
    write_file(file, bundle_file(example_bundle()));
    const auto calls = std::make_shared<EndHook>([&] { write_file(file, later); });
    const auto unpacked = unpack(file, folder.path() / "store", FileSystem::posix(), calls);
    REQUIRE_FALSE(unpacked);
    CHECK(unpacked.error().code == ErrorCode::io);
    CHECK_MESSAGE(holds(unpacked.error().message, "the bundle changed while it was read"), unpacked.error().message);
    CHECK_FALSE(fs::exists(folder.path() / "store" / "fits"));
  }
  // A name that comes to stand for another file is no change: the file that was opened is read.
  write_file(file, bundle_file(example_bundle()));
  write_file(folder.path() / "later", "no bundle");
  const auto calls = std::make_shared<EndHook>([&] { fs::rename(folder.path() / "later", file); });
  CHECK(unpack(file, folder.path() / "store", FileSystem::posix(), calls));
}

TEST_CASE("bundle files: a store that cannot be written to keeps what it has, whole") {
  const TemporaryFolder folder;
  write_file(folder.path() / "bundle", bundle_file(example_bundle()));
  for (int number = 0;; ++number) {
    const fs::path store = folder.path() / ("store" + std::to_string(number));
    const auto files = std::make_shared<FaultyFileSystem>();
    files->fail_operation(number, ENOSPC, true);
    const auto unpacked = unpack(folder.path() / "bundle", store, files);
    files->work_again();
    if (unpacked) {
      CHECK(number > 10);
      break;
    }
    CHECK(unpacked.error().code == ErrorCode::io);
    const auto listed = example_store(store).list();
    REQUIRE(listed);
    for (const auto& entry : *listed) CHECK(entry.problem.empty());
    const auto again = unpack(folder.path() / "bundle", store);
    REQUIRE(again);
    CHECK(again->entries.added + again->entries.present == 2);
    CHECK(again->entries.replaced + again->fits.replaced + again->compilers.replaced == 0);
    REQUIRE(number < 200);
  }
}

TEST_CASE("bundle files: a store of another user is not written to") {
  const TemporaryFolder folder;
  write_file(folder.path() / "bundle", bundle_file(example_bundle()));
  fs::create_directories(folder.path() / "store");
  const auto files = std::make_shared<FaultyFileSystem>();
  files->owner_of_everything = ::geteuid() + 1;
  const auto unpacked = unpack(folder.path() / "bundle", folder.path() / "store", files);
  REQUIRE_FALSE(unpacked);
  CHECK(unpacked.error().code == ErrorCode::io);
  CHECK(fs::is_empty(folder.path() / "store"));
}
