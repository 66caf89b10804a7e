#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "fixtures/faulty_posix_calls.hpp"
#include "fixtures/temporary_folder.hpp"
#include "platform/clock.hpp"
#include "platform/file_system.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  return *FileSystem::posix()->list(folder);
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("file system: what is published is read back") {
  const TemporaryFolder folder;
  const auto files = FileSystem::posix();
  const auto path = folder.path() / "entry";
  for (const std::string& content : {std::string("old"), std::string(), std::string("a\0b", 3), std::string(300'000, 'x')}) {
    REQUIRE(files->publish(path, as_bytes(content)));
    CHECK(read_file(path) == content);
    const auto read = files->read(path, {300'000});
    REQUIRE(read);
    CHECK(as_text(*read) == content);
    CHECK(names_in(folder.path()) == std::vector<std::string>{"entry"});
  }
}

TEST_CASE("file system: read refuses what is not a regular file of at most the limit") {
  const TemporaryFolder folder;
  const auto files = FileSystem::posix();
  const auto path = folder.path() / "file";
  write_file(path, "12345");
  CHECK(files->read(path, {5}));
  const auto large = files->read(path, {4});
  REQUIRE_FALSE(large);
  CHECK(large.error().code == ErrorCode::malformed);
  CHECK(holds(large.error().message, path.native()));
  CHECK(holds(large.error().message, "limit of 4 bytes"));

  const auto missing = files->read(folder.path() / "missing", {5});
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::not_found);

  const auto in_place_of_folder = files->read(path / "below", {5});
  REQUIRE_FALSE(in_place_of_folder);
  CHECK(in_place_of_folder.error().code == ErrorCode::io);

  const auto a_folder = files->read(folder.path(), {5});
  REQUIRE_FALSE(a_folder);
  CHECK(a_folder.error().code == ErrorCode::malformed);
  CHECK(holds(a_folder.error().message, "a folder"));

  const auto fifo = folder.path() / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const auto from_fifo = files->read(fifo, {5});  // would wait for a writer for ever if it waited at all
  REQUIRE_FALSE(from_fifo);
  CHECK(from_fifo.error().code == ErrorCode::malformed);
  CHECK(holds(from_fifo.error().message, "a FIFO"));

  const auto device = files->read("/dev/zero", {5});
  REQUIRE_FALSE(device);
  CHECK(holds(device.error().message, "a device"));

  std::filesystem::create_symlink(path, folder.path() / "link");
  CHECK(files->read(folder.path() / "link", {5}));
}

TEST_CASE("file system: a failing system call leaves the old file, no temporary file and no open descriptor") {
  struct Fault {
    std::string call;
    int code;
  };
  std::vector<Fault> faults;
  for (const char* call : {"open", "write", "fsync", "close", "rename"}) {
    for (const int code : {ENOSPC, EACCES, EROFS, EIO, EDQUOT}) faults.push_back({call, code});
  }
  const TemporaryFolder folder;
  const auto path = folder.path() / "entry";
  write_file(path, "old");
  const std::string content(10'000, 'n');
  for (const Fault& fault : faults) {
    CAPTURE(fault.call);
    CAPTURE(fault.code);
    const auto calls = std::make_shared<FaultyPosixCalls>();
    calls->failing = fault.call;
    calls->code = fault.code;
    calls->longest_write = 1'000;
    calls->writes_before_failure = fault.call == "write" ? 3 : 0;
    const auto descriptors = open_descriptors();
    const auto published = make_posix_file_system(calls)->publish(path, as_bytes(content));
    REQUIRE_FALSE(published);
    CHECK(published.error().code == ErrorCode::io);
    CHECK(holds(published.error().message, path.native().substr(0, path.native().rfind('/'))));
    CHECK(holds(published.error().message, std::strerror(fault.code)));
    if (fault.code == ENOSPC) CHECK(holds(published.error().message, "KERNWRIGHT_CACHE_DIR"));
    CHECK(open_descriptors() == descriptors);
    CHECK(read_file(path) == "old");
    CHECK(names_in(folder.path()) == std::vector<std::string>{"entry"});
  }
}

TEST_CASE("file system: short and interrupted calls are carried on") {
  const TemporaryFolder folder;
  const auto calls = std::make_shared<FaultyPosixCalls>();
  calls->longest_write = 7;
  calls->longest_read = 11;
  calls->interruptions = 40;
  const auto files = make_posix_file_system(calls);
  std::string content;
  for (int i = 0; i < 1'000; ++i) content += static_cast<char>(i);
  const auto path = folder.path() / "entry";
  REQUIRE(files->publish(path, as_bytes(content)));
  CHECK(read_file(path) == content);
  const auto read = files->read(path, {1'000});
  REQUIRE(read);
  CHECK(as_text(*read) == content);
  CHECK(calls->interrupted == 40);
}

TEST_CASE("file system: a failing read is an error with its reason") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "entry";
  write_file(path, "old");
  const auto calls = std::make_shared<FaultyPosixCalls>();
  calls->failing = "read";
  calls->code = EIO;
  const auto read = make_posix_file_system(calls)->read(path, {100});
  REQUIRE_FALSE(read);
  CHECK(read.error().code == ErrorCode::io);
  CHECK(holds(read.error().message, std::strerror(EIO)));
}

TEST_CASE("file system: a folder in the file's place is not replaced") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "entry";
  std::filesystem::create_directories(path);
  CHECK_FALSE(FileSystem::posix()->publish(path, as_bytes("new")));
  CHECK(std::filesystem::is_directory(path));
  CHECK(names_in(folder.path()) == std::vector<std::string>{"entry"});
}

TEST_CASE("file system: folders are made with their parents and the mode asked for") {
  const TemporaryFolder folder;
  const auto files = FileSystem::posix();
  const auto deep = folder.path() / "a" / "b" / "c";
  REQUIRE(files->create_folders(deep, 0700));
  REQUIRE(files->create_folders(deep, 0700));
  for (const auto& path : {deep, deep.parent_path(), deep.parent_path().parent_path()}) {
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777U) == 0700U);
  }
  write_file(folder.path() / "file", "");
  const auto below_file = files->create_folders(folder.path() / "file" / "x", 0700);
  REQUIRE_FALSE(below_file);
  CHECK(below_file.error().code == ErrorCode::io);
  CHECK(holds(below_file.error().message, "a file where a folder should be"));

  const auto calls = std::make_shared<FaultyPosixCalls>();
  calls->failing = "mkdir";
  calls->code = EROFS;
  const auto read_only = make_posix_file_system(calls)->create_folders(folder.path() / "new", 0700);
  REQUIRE_FALSE(read_only);
  CHECK(holds(read_only.error().message, "read-only"));
}

TEST_CASE("file system: list, status, rename and remove") {
  const TemporaryFolder folder;
  const auto files = FileSystem::posix();
  CHECK(files->list(folder.path() / "missing")->empty());
  for (const char* name : {"b", "a", ".hidden"}) write_file(folder.path() / name, "1234");
  CHECK(*files->list(folder.path()) == std::vector<std::string>{".hidden", "a", "b"});
  CHECK_FALSE(files->list(folder.path() / "a"));

  const auto status = files->status(folder.path() / "a");
  REQUIRE(status);
  CHECK(status->regular_file);
  CHECK_FALSE(status->folder);
  CHECK(status->size == Bytes{4});
  CHECK(status->owner == ::geteuid());
  CHECK(std::abs(status->modified_seconds - Clock::system()->unix_seconds()) < 60);
  CHECK(files->status(folder.path())->folder);
  CHECK(files->status(folder.path() / "missing").error().code == ErrorCode::not_found);

  CHECK(files->rename(folder.path() / "a", folder.path() / "c"));
  CHECK(files->remove(folder.path() / "c"));
  CHECK(files->remove(folder.path() / "c").error().code == ErrorCode::not_found);
  std::filesystem::create_directories(folder.path() / "d" / "e");
  CHECK_FALSE(files->remove(folder.path() / "d"));
  CHECK(files->remove(folder.path() / "d" / "e"));
  CHECK(files->remove(folder.path() / "d"));
}

TEST_CASE("file system: readers never see a mix of publishers, in threads and in processes") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "entry";
  const auto publish_often = [&](char letter) {
    const auto files = FileSystem::posix();
    bool all = true;
    for (std::size_t i = 0; i < 60; ++i) {
      all = all && files->publish(path, as_bytes(std::string(1'000 + 997 * (i % 40), letter))).has_value();
    }
    return all;
  };
  REQUIRE(publish_often('0'));
  std::vector<pid_t> children;
  for (const char letter : {'1', '2'}) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(publish_often(letter) ? 0 : 1);
    REQUIRE(child > 0);
    children.push_back(child);
  }
  std::atomic<bool> done = false;
  std::atomic<int> mixed = 0;
  std::atomic<int> reads = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      const auto files = FileSystem::posix();
      while (!done) {
        const auto read = files->read(path, mebibytes(1));
        ++reads;
        const bool whole = read && read->size() >= 1'000 && (read->size() - 1'000) % 997 == 0 &&
                           std::all_of(read->begin(), read->end(), [&](std::byte byte) { return byte == read->front(); });
        if (!whole) ++mixed;
      }
    });
  }
  std::thread writer([&] { publish_often('3'); });
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  writer.join();
  done = true;
  for (auto& reader : readers) reader.join();
  CHECK(mixed == 0);
  CHECK(reads > 0);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"entry"});
}

TEST_CASE("clock: the system's clocks move") {
  const auto clock = Clock::system();
  CHECK(std::abs(clock->unix_seconds() - static_cast<std::int64_t>(std::time(nullptr))) <= 2);
  const double before = clock->monotonic_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const double passed = clock->monotonic_seconds() - before;
  CHECK(passed >= 0.005);
  CHECK(passed < 60);
}
