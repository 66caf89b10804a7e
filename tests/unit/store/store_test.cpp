#include "store/store.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "fixtures/example_artifact.hpp"
#include "fixtures/example_fit.hpp"
#include "fixtures/faulty_file_system.hpp"
#include "fixtures/temporary_folder.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

namespace fs = std::filesystem;

class FixedClock final : public Clock {
 public:
  std::int64_t now = 0;
  std::int64_t unix_seconds() const override { return now; }
  double monotonic_seconds() const override { return 0; }
  void sleep(double) override {}
};

Store open_store(const fs::path& folder, std::shared_ptr<FileSystem> files = FileSystem::posix()) {
  return {folder, std::move(files), Clock::system()};
}

Store::Lookup look_up(Store& store, const Artifact& artifact) {
  return store.read(artifact.key, artifact.request, artifact.compiler);
}

fs::path path_of(const Store& store, const Artifact& artifact) {
  const std::string hex = artifact.key.hex();
  return store.folder() / "entries" / hex.substr(0, 2) / (hex + ".kwe");
}

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::string> all_files(const fs::path& folder) {
  std::vector<std::string> names;
  if (!fs::exists(folder)) return names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_directory()) names.push_back(fs::relative(entry.path(), folder).native());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("store: nothing is created before the first write") {
  const TemporaryFolder folder;
  Store store = open_store(folder.path() / "new" / "store");
  const Artifact artifact = example_artifact();
  CHECK(look_up(store, artifact).outcome == Store::Outcome::miss);
  std::string problem = "untouched";
  CHECK_FALSE(store.read_fit(example_fit_key(), &problem));
  CHECK(problem == "untouched");
  CHECK(store.list()->empty());
  CHECK(store.list_fits()->empty());
  CHECK(store.compilers()->empty());
  CHECK(store.show("abcd").error().code == ErrorCode::not_found);
  CHECK(store.clear()->entries == 0);
  CHECK_FALSE(fs::exists(folder.path() / "new"));
}

TEST_CASE("store: what is published is a hit, and nothing else is") {
  const TemporaryFolder folder;
  Store store = open_store(folder.path() / "store");
  const Artifact artifact = example_artifact();
  REQUIRE(store.publish(artifact));
  const auto hit = look_up(store, artifact);
  REQUIRE_MESSAGE(hit.outcome == Store::Outcome::hit, hit.problem);
  CHECK(hit.artifact->binary == artifact.binary);
  CHECK(hit.artifact->plans == artifact.plans);
  CHECK(look_up(store, example_artifact_with(16, 10)).outcome == Store::Outcome::miss);
  // A store of another object, as in another process.
  Store again = open_store(folder.path() / "store");
  CHECK(look_up(again, artifact).outcome == Store::Outcome::hit);
  CHECK(again.compilers() == std::vector<CompilerIdentity>{artifact.compiler});
  CHECK(all_files(store.folder()).size() == 3);  // with its compiler and its stamp
  struct stat status {};
  REQUIRE(::stat(store.folder().c_str(), &status) == 0);
  CHECK((status.st_mode & 0777U) == 0700U);
}

TEST_CASE("store: a bad entry is no hit, says why, and the next publish replaces it") {
  const TemporaryFolder folder;
  Store store = open_store(folder.path() / "store");
  const Artifact artifact = example_artifact();
  const auto path = path_of(store, artifact);
  REQUIRE(store.publish(artifact));
  const std::string good = read_file(path);
  const Artifact other = example_artifact_with(32, 500);
  REQUIRE(store.publish(other));
  const std::string of_other = read_file(path_of(store, other));

  struct Damage {
    std::string name;
    std::function<void()> make;
    std::string_view says;
  };
  const std::vector<Damage> damages{
      {"empty", [&] { write_file(path, ""); }, "has 0 bytes"},
      {"cut", [&] { write_file(path, good.substr(0, good.size() - 1)); }, "checksum"},
      {"longer", [&] { write_file(path, good + "x"); }, "checksum"},
      {"text", [&] { write_file(path, std::string(100, 'x')); }, "does not begin"},
      {"another entry", [&] { write_file(path, of_other); }, "another key"},
      {"an empty folder", [&] { fs::create_directories(path); }, "a folder"},
      {"a folder with something in it", [&] { write_file(path / "x", "precious"); }, "a folder"},
      {"a FIFO", [&] { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); }, "a FIFO"},
      {"a link to nothing, which is a miss", [&] { fs::create_symlink("/nonexistent", path); }, ""},
  };
  for (const Damage& damage : damages) {
    CAPTURE(damage.name);
    fs::remove_all(path);
    damage.make();
    const auto lookup = look_up(store, artifact);
    CHECK(lookup.outcome == (damage.says.empty() ? Store::Outcome::miss : Store::Outcome::bad));
    CHECK_MESSAGE(holds(lookup.problem, damage.says), lookup.problem);
    if (!damage.says.empty()) CHECK(holds(lookup.problem, path.native()));
    CHECK(lookup.artifact == nullptr);
    const auto published = store.publish(artifact);
    REQUIRE_MESSAGE(published, (published ? "" : published.error().text()));
    CHECK(look_up(store, artifact).outcome == Store::Outcome::hit);
  }
  // What stood in the folder is still there, also once another one stood in its place.
  fs::remove(path);
  write_file(path / "x", "precious too");
  REQUIRE(store.publish(artifact));
  CHECK(read_file(fs::path(path.native() + ".displaced-1") / "x") == "precious");
  CHECK(read_file(fs::path(path.native() + ".displaced-2") / "x") == "precious too");
}

TEST_CASE("store: every flipped byte of a file on disk is bad") {
  const TemporaryFolder folder;
  Store store = open_store(folder.path() / "store");
  const Artifact artifact = example_artifact();
  REQUIRE(store.publish(artifact));
  const auto path = path_of(store, artifact);
  const std::string good = read_file(path);
  for (std::size_t at = 0; at < good.size(); at += 5) {
    std::string changed = good;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    write_file(path, changed);
    REQUIRE(look_up(store, artifact).outcome == Store::Outcome::bad);
  }
}

TEST_CASE("store: a failing file system never loses what is there, and is an error with its reason") {
  const Artifact artifact = example_artifact();
  for (const int code : {ENOSPC, EACCES, EROFS, EIO}) {
    for (int number = 0;; ++number) {
      CAPTURE(code);
      CAPTURE(number);
      const TemporaryFolder folder;
      const auto files = std::make_shared<FaultyFileSystem>();
      Store store = open_store(folder.path() / "store", files);
      REQUIRE(store.publish(example_artifact_with(16, 100)));
      files->start_counting();
      files->fail_operation(number, code);
      const auto published = store.publish(artifact);
      const bool reached = files->count() > number;
      files->work_again();
      CHECK(look_up(store, example_artifact_with(16, 100)).outcome == Store::Outcome::hit);
      const auto after = look_up(store, artifact).outcome;
      CHECK(after == (published ? Store::Outcome::hit : Store::Outcome::miss));
      if (!published) CHECK(holds(published.error().message, std::strerror(code)));
      if (!reached) {
        CHECK(published);
        CHECK(number >= 3);  // at least: read the record, folders, publish; the owner was asked by the first publish
        break;
      }
      REQUIRE(store.publish(artifact));
      CHECK(look_up(store, artifact).outcome == Store::Outcome::hit);
    }
  }
}

TEST_CASE("store: an unreadable entry or fit is bad, not an error") {
  const TemporaryFolder folder;
  const auto files = std::make_shared<FaultyFileSystem>();
  Store store = open_store(folder.path() / "store", files);
  const Artifact artifact = example_artifact();
  REQUIRE(store.publish(artifact));
  REQUIRE(store.publish_fit(example_fit_key(), example_fit()));
  files->fail_kind(FileOperation::read, EIO);
  const auto lookup = look_up(store, artifact);
  CHECK(lookup.outcome == Store::Outcome::bad);
  CHECK(holds(lookup.problem, std::strerror(EIO)));
  std::string problem;
  CHECK_FALSE(store.read_fit(example_fit_key(), &problem));
  CHECK(holds(problem, std::strerror(EIO)));
  CHECK_FALSE(store.read_fit(example_fit_key(), nullptr));
}

TEST_CASE("store: a folder of another user is not written to") {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() / "store");
  const auto files = std::make_shared<FaultyFileSystem>();
  files->owner_of_everything = ::geteuid() + 1;
  Store store = open_store(folder.path() / "store", files);
  const auto published = store.publish(example_artifact());
  REQUIRE_FALSE(published);
  CHECK(published.error().code == ErrorCode::io);
  CHECK(holds(published.error().message, "belongs to user " + std::to_string(::geteuid() + 1)));
  CHECK(holds(published.error().message, "KERNWRIGHT_CACHE_DIR"));
  CHECK_FALSE(store.publish_fit(example_fit_key(), example_fit()));
  CHECK(all_files(folder.path()).empty());
}

TEST_CASE("store: list and show") {
  const TemporaryFolder folder;
  Store store = open_store(folder.path() / "store");
  std::vector<Artifact> artifacts;
  for (const int block_m : {16, 32, 48, 64, 80}) artifacts.push_back(example_artifact_with(block_m, 100));
  std::sort(artifacts.begin(), artifacts.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  for (const Artifact& artifact : artifacts) REQUIRE(store.publish(artifact));
  const auto bad_path = path_of(store, artifacts[2]);
  write_file(bad_path, "bad");
  write_file(store.folder() / "entries" / "README", "not ours");
  write_file(bad_path.parent_path() / "notes.txt", "not ours");

  const auto items = store.list();
  REQUIRE(items);
  REQUIRE(items->size() == 5);
  for (std::size_t i = 0; i < 5; ++i) {
    const Store::Listed& item = items->at(i);
    CHECK(item.key == artifacts[i].key.hex());
    CHECK(item.size.count == fs::file_size(path_of(store, artifacts[i])));
    CHECK(std::abs(item.modified_seconds - Clock::system()->unix_seconds()) < 60);
    if (i == 2) {
      CHECK(item.artifact == nullptr);
      CHECK(holds(item.problem, "has 3 bytes"));
    } else {
      REQUIRE(item.artifact != nullptr);
      CHECK(item.artifact->log == artifacts[i].log);
      CHECK(item.artifact->request.sources == artifacts[i].request.sources);
      CHECK(item.problem.empty());
    }
  }
  const std::string hex = artifacts[0].key.hex();
  CHECK(store.show(hex)->artifact->binary == artifacts[0].binary);
  CHECK(store.show(hex.substr(0, 12))->key == hex);
  CHECK(store.show(artifacts[2].key.hex())->artifact == nullptr);
  CHECK(store.show("abc").error().code == ErrorCode::invalid_argument);
  CHECK(store.show("../../etc").error().code == ErrorCode::invalid_argument);
  CHECK(store.show("ffffffffffffffffffffffffffffffff").error().code == ErrorCode::not_found);
  // Two keys with the same first digits.
  std::string twin = hex;
  twin.back() = twin.back() == '0' ? '1' : '0';
  fs::copy_file(path_of(store, artifacts[0]), path_of(store, artifacts[0]).parent_path() / (twin + ".kwe"));
  const auto two = store.show(hex.substr(0, 8));
  REQUIRE_FALSE(two);
  CHECK(two.error().code == ErrorCode::invalid_argument);
  CHECK(holds(two.error().message, "2 keys"));
  CHECK(holds(store.show(twin)->problem, "another key"));
}

TEST_CASE("store: clear removes what the store wrote, old leftovers included, and nothing else") {
  const TemporaryFolder folder;
  const auto clock = std::make_shared<FixedClock>();
  clock->now = Clock::system()->unix_seconds();
  Store store(folder.path() / "store", FileSystem::posix(), clock);
  const Artifact artifact = example_artifact();
  REQUIRE(store.publish(artifact));
  REQUIRE(store.publish(example_artifact_with(16, 10)));
  REQUIRE(store.publish_fit(example_fit_key(), example_fit()));
  const auto entry = path_of(store, artifact);
  const auto leftover = entry.parent_path() / ".x.kwe.1.2.tmp";
  write_file(leftover, "half an ent");
  write_file(entry.parent_path() / "notes.txt", "not ours");
  write_file(store.folder() / "README", "not ours");
  std::uint64_t bytes = 0;
  for (const char* part : {"entries", "fits", "compilers"}) {
    for (const std::string& name : all_files(store.folder() / part)) {
      if (name.ends_with(".kwe") || name.ends_with(".toml")) bytes += fs::file_size(store.folder() / part / name);
    }
  }
  const auto cleared = store.clear();
  REQUIRE(cleared);
  CHECK(cleared->entries == 2);
  CHECK(cleared->fits == 1);
  CHECK(cleared->bytes.count == bytes);
  CHECK(fs::exists(leftover));  // young: another process may be writing it
  clock->now += 2 * 3600;
  CHECK(store.clear()->bytes.count == 11);
  CHECK_FALSE(fs::exists(leftover));
  CHECK(all_files(store.folder()).size() == 2);
  CHECK(look_up(store, artifact).outcome == Store::Outcome::miss);
  REQUIRE(store.publish(artifact));
  CHECK(look_up(store, artifact).outcome == Store::Outcome::hit);
}

TEST_CASE("store: fits and compilers are kept and damaged ones ignored") {
  const TemporaryFolder folder;
  Store store = open_store(folder.path() / "store");
  REQUIRE(store.publish_fit(example_fit_key('a'), example_fit()));
  Fit other = example_fit();
  other.reason = "another";
  REQUIRE(store.publish_fit(example_fit_key('b'), other));
  std::string problem;
  CHECK(store.read_fit(example_fit_key('a'), &problem) == example_fit());
  CHECK(store.read_fit(example_fit_key('b'), &problem) == other);
  CHECK(problem.empty());
  CHECK(store.list_fits()->size() == 2);
  write_file(store.folder() / "fits" / (example_fit_key('a').hex() + ".toml"), "format = 1\n[[fit");
  CHECK_FALSE(store.read_fit(example_fit_key('a'), &problem));
  CHECK(holds(problem, "not usable"));
  CHECK(store.list_fits()->size() == 1);
  REQUIRE(store.publish_fit(example_fit_key('a'), example_fit()));
  CHECK(store.read_fit(example_fit_key('a'), &problem) == example_fit());

  Artifact artifact = example_artifact();
  REQUIRE(store.publish(artifact));
  const auto record = store.folder() / "compilers" / all_files(store.folder() / "compilers").at(0);
  write_file(record, "format = 1\nname = \"nvrtc\"\nversion = \"9\"\n");  // another compiler's record under this name
  CHECK(store.compilers()->empty());
  REQUIRE(store.publish(artifact));
  CHECK(store.compilers() == std::vector<CompilerIdentity>{artifact.compiler});
  artifact.compiler.components[0].second = "another build of the same version";
  artifact.key = entry_key(artifact.request, artifact.compiler);
  REQUIRE(store.publish(artifact));
  CHECK(store.compilers()->size() == 2);
}

TEST_CASE("store: publishers and readers of one entry, in threads and processes, see whole entries only") {
  const TemporaryFolder folder;
  Store store = open_store(folder.path() / "store");
  // The same key, so the same name, with binaries of different lengths: what two compilers runs of an irreproducible build would give.
  std::vector<Artifact> artifacts;
  for (const std::size_t size : {std::size_t{100}, std::size_t{50'000}, std::size_t{200'000}}) {
    Artifact artifact = example_artifact();
    artifact.binary.assign(size, static_cast<std::byte>(size / 100));
    artifacts.push_back(std::move(artifact));
  }
  REQUIRE(store.publish(artifacts[0]));
  const auto publish_often = [&](const Artifact& artifact) {
    Store own = open_store(folder.path() / "store");
    bool all = true;
    for (int i = 0; i < 40; ++i) all = all && own.publish(artifact).has_value();
    return all;
  };
  std::vector<pid_t> children;
  for (const std::size_t i : {1U, 2U}) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(publish_often(artifacts[i]) ? 0 : 1);
    REQUIRE(child > 0);
    children.push_back(child);
  }
  std::atomic<bool> done = false;
  std::atomic<int> wrong = 0;
  std::atomic<int> hits = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      while (!done) {
        const auto lookup = look_up(store, artifacts[0]);
        const bool whole = lookup.outcome == Store::Outcome::hit &&
                           std::any_of(artifacts.begin(), artifacts.end(),
                                       [&](const Artifact& artifact) { return artifact.binary == lookup.artifact->binary; });
        ++(whole ? hits : wrong);
      }
    });
  }
  std::thread writer([&] { publish_often(artifacts[0]); });
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  writer.join();
  done = true;
  for (auto& reader : readers) reader.join();
  CHECK(wrong == 0);
  CHECK(hits > 0);
  CHECK(all_files(store.folder()).size() == 3);  // with its compiler and its stamp
}

TEST_CASE("store: the time of a hit is reported") {
  const TemporaryFolder folder;
  Store store = open_store(folder.path() / "store");
  const Artifact artifact = example_artifact_with(64, 100'000);
  REQUIRE(store.publish(artifact));
  std::vector<double> microseconds;
  for (int i = 0; i < 200; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto lookup = look_up(store, artifact);
    microseconds.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    REQUIRE(lookup.outcome == Store::Outcome::hit);
  }
  std::sort(microseconds.begin(), microseconds.end());
  MESSAGE("a hit of 100 KB: median " << microseconds[100] << " us, 90th of 100 " << microseconds[180] << " us");
}
