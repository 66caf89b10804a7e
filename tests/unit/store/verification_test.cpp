#include "store/verification.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "fixtures/example_artifact.hpp"
#include "fixtures/example_fit.hpp"
#include "fixtures/faulty_file_system.hpp"
#include "fixtures/file_times.hpp"
#include "fixtures/moved_clock.hpp"
#include "fixtures/temporary_folder.hpp"
#include "store/compiler_record.hpp"
#include "store/store_paths.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

namespace fs = std::filesystem;

/// Two entries, a stamp, a fit and a compiler record, as a run writes them.
struct FilledStore {
  TemporaryFolder folder;
  fs::path path = folder.path() / "store";
  std::shared_ptr<MovedClock> clock = std::make_shared<MovedClock>();
  std::shared_ptr<FaultyFileSystem> files = std::make_shared<FaultyFileSystem>();
  Artifact artifact = example_artifact();
  Artifact other = example_artifact_with(16, 100);
  Store store;

  explicit FilledStore(StoreSettings settings = {}) : store(path, files, clock, settings) {
    REQUIRE(store.publish(artifact));
    REQUIRE(store.publish(other));
    REQUIRE(store.read(artifact.key, artifact.request, artifact.compiler).outcome == Store::Outcome::hit);
    REQUIRE(store.publish_fit(example_fit_key(), example_fit()));
  }
  [[nodiscard]] fs::path entry() const { return entry_path(path, artifact.key.hex()); }
  [[nodiscard]] fs::path fit() const { return fit_path(path, example_fit_key().hex()); }
  [[nodiscard]] fs::path record() const { return compiler_path(path, compiler_record_name(artifact.compiler)); }
  Verification verify() {
    auto verification = verify_store(store, *files, clock->unix_seconds());
    REQUIRE_MESSAGE(verification, (verification ? "" : verification.error().text()));
    return *verification;
  }
};

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("verification: a store as a run writes it has nothing to find, and one that is absent is as one that is empty") {
  FilledStore filled;
  Verification verification = filled.verify();
  CHECK(verification.findings.empty());
  CHECK(verification.entries == 2);
  CHECK(verification.fits == 1);
  CHECK(verification.compilers == 1);
  CHECK(verification.bad() == 0);
  // A build that is under way leaves its lock file, and files that it is still writing.
  REQUIRE(filled.store.try_lock_build(filled.artifact.key, "somebody"));
  write_file(filled.entry().parent_path() / ".x.1.0123456789abcdef.tmp", "half");
  CHECK(filled.verify().findings.empty());

  Store absent(filled.path / "absent", filled.files, filled.clock);
  const auto nothing = verify_store(absent, *filled.files, 0);
  REQUIRE(nothing);
  CHECK(nothing->findings.empty());
  CHECK(nothing->entries == 0);
  CHECK_FALSE(fs::exists(filled.path / "absent"));
}

TEST_CASE("verification: every fault is found, named by its file, and judged") {
  struct Case {
    std::string name;
    std::function<void(FilledStore&)> make;
    Fault fault;
    bool bad;
    std::function<fs::path(const FilledStore&)> path;
    std::string says;
  };
  const auto root = [](const char* name) { return [name](const FilledStore& store) { return store.path / name; }; };
  const auto entry = [](const FilledStore& store) { return store.entry(); };
  const auto fit = [](const FilledStore& store) { return store.fit(); };
  const auto record = [](const FilledStore& store) { return store.record(); };
  const auto fit_with = [](auto change) {
    return [change](FilledStore& store) {
      Fit fit = example_fit();
      change(fit);
      write_file(store.fit(), write_fit(fit));
    };
  };
  const std::string displaced = example_artifact().key.hex() + ".kwe.displaced-1";
  const std::vector<Case> cases{
      {"a flipped byte", [](FilledStore& s) { write_file(s.entry(), read_file(s.entry()).replace(700, 1, "\xff")); }, Fault::bad_entry,
       true, entry, "checksum"},
      {"another key's entry",
       [](FilledStore& s) { fs::copy_file(entry_path(s.path, s.other.key.hex()), s.entry(), fs::copy_options::overwrite_existing); },
       Fault::bad_entry, true, entry, "another key"},
      {"a folder in an entry's place",
       [](FilledStore& s) {
         fs::remove(s.entry());
         fs::create_directory(s.entry());
       },
       Fault::bad_entry, true, entry, "a folder"},
      {"a FIFO in an entry's place",
       [](FilledStore& s) {
         fs::remove(s.entry());
         REQUIRE(::mkfifo(s.entry().c_str(), 0600) == 0);
       },
       Fault::bad_entry, true, entry, "a FIFO"},
      {"a fit that is no TOML", [](FilledStore& s) { write_file(s.fit(), "format = 1\n[[fit"); }, Fault::bad_fit, true, fit, "fit"},
      {"a fit of no target", fit_with([](Fit& f) { f.target = "sm_none"; }), Fault::bad_fit, true, fit, "sm_none"},
      {"a fit of what was asked for", fit_with([](Fit& f) { f.fitted = f.asked; }), Fault::bad_fit, true, fit, "asked for"},
      {"a compiler that is no TOML", [](FilledStore& s) { write_file(s.record(), "?"); }, Fault::bad_compiler, true, record, ""},
      {"another compiler's record",
       [](FilledStore& s) {
         CompilerIdentity compiler = example_compiler();
         compiler.version = "9.0";
         write_file(s.record(), write_compiler_record(compiler));
       },
       Fault::bad_compiler, true, record, "digest"},
      {"no compiler record", [](FilledStore& s) { fs::remove(s.record()); }, Fault::unlisted_compiler, true, entry, "nvrtc 13.0"},
      {"a file in a folder's place",
       [](FilledStore& s) {
         fs::remove_all(s.path / "fits");
         write_file(s.path / "fits", "");
       },
       Fault::unreadable, true, root("fits"), "a folder belongs"},
      {"somebody's file", [](FilledStore& s) { write_file(s.path / "notes.txt", ""); }, Fault::unexpected, false, root("notes.txt"),
       "not the store's"},
      {"somebody's folder", [](FilledStore& s) { fs::create_directory(s.path / "more"); }, Fault::unexpected, false, root("more"),
       "a folder"},
      {"a file among shards", [](FilledStore& s) { write_file(s.path / "entries" / "README", ""); }, Fault::unexpected, false,
       root("entries/README"), "not the store's"},
      {"a file among records", [](FilledStore& s) { write_file(s.path / "compilers" / "x.toml", ""); }, Fault::unexpected, false,
       root("compilers/x.toml"), "not the store's"},
      {"an entry in another shard", [](FilledStore& s) { write_file(s.path / "entries" / "ff" / (s.artifact.key.hex() + ".kwe"), ""); },
       Fault::unexpected, false, [](const FilledStore& s) { return s.path / "entries" / "ff" / (s.artifact.key.hex() + ".kwe"); },
       "nobody finds it"},
      {"a displaced folder", [&](FilledStore& s) { fs::create_directory(s.entry().parent_path() / displaced); }, Fault::unexpected, false,
       [&](const FilledStore& s) { return s.entry().parent_path() / displaced; }, "renamed aside"},
      {"a temporary file of two hours ago",
       [](FilledStore& s) {
         write_file(s.path / "fits" / ".x.1.0123456789abcdef.tmp", "half");
         set_file_time(s.path / "fits" / ".x.1.0123456789abcdef.tmp", s.clock->unix_seconds() - 7200);
       },
       Fault::leftover, false, root("fits/.x.1.0123456789abcdef.tmp"), "ended while it wrote"},
      {"a stamp without its entry", [](FilledStore& s) { write_file(stamp_path(s.path, "00112233445566778899aabbccddeeff"), ""); },
       Fault::leftover, false, [](const FilledStore& s) { return stamp_path(s.path, "00112233445566778899aabbccddeeff"); }, "gone"},
      {"a link in an entry's place",
       [](FilledStore& s) {
         fs::rename(s.entry(), s.folder.path() / "aside");
         fs::create_symlink(s.folder.path() / "aside", s.entry());
       },
       Fault::link, false, entry, "never evicted"},
      {"a link to nothing",
       [](FilledStore& s) {
         fs::remove(s.entry());
         fs::create_symlink("/nonexistent", s.entry());
       },
       Fault::bad_entry, true, entry, ""},
  };
  for (const Case& each : cases) {
    CAPTURE(each.name);
    FilledStore filled;
    each.make(filled);
    const Verification verification = filled.verify();
    const fs::path wanted = each.path(filled).lexically_relative(filled.path);
    const auto found = std::ranges::find(verification.findings, wanted, &Finding::path);
    REQUIRE(found != verification.findings.end());
    CHECK(found->fault == each.fault);
    CHECK_MESSAGE(holds(found->problem, each.says), found->problem);
    CHECK(is_bad(found->fault) == each.bad);
    CHECK((verification.bad() > 0) == each.bad);
    CHECK(!to_string(found->fault).empty());
    if (each.fault == Fault::bad_entry) CHECK(found->key == filled.artifact.key.hex());
    if (each.name.starts_with("a temporary")) CHECK(found->age_seconds == 7200);
    // Nothing else is found, but for a compiler's other entries, and the stamp of one that is a link to nothing.
    const bool alone = each.fault != Fault::unlisted_compiler && each.fault != Fault::bad_compiler && each.name != "a link to nothing";
    if (alone) CHECK(verification.findings.size() == 1);
  }
}

TEST_CASE("verification: entries of a compiler whose record is damaged are named, each") {
  FilledStore filled;
  write_file(filled.record(), "?");
  const Verification verification = filled.verify();
  CHECK(verification.bad() == 3);
  CHECK(std::ranges::count(verification.findings, Fault::unlisted_compiler, &Finding::fault) == 2);
}

TEST_CASE("verification: rights by which others could change what is loaded are found where they can be used, once") {
  FilledStore filled;
  const auto rights = [&] {
    std::vector<std::string> paths;
    for (const Finding& each : filled.verify().findings) {
      CHECK(each.fault == Fault::rights);
      paths.push_back(each.path.string());
    }
    return paths;
  };
  const auto mode = [](const fs::path& path, mode_t bits) { REQUIRE(::chmod(path.c_str(), bits) == 0); };
  const std::string entry = filled.entry().lexically_relative(filled.path).string();
  using Paths = std::vector<std::string>;
  // A folder that nobody else may enter shields what is in it.
  mode(filled.entry(), 0666);
  mode(filled.path / "entries", 0777);
  CHECK(rights().empty());
  // Through folders that others may enter they get at the file.
  mode(filled.path, 0755);
  mode(filled.path / "entries", 0755);
  mode(filled.entry().parent_path(), 0755);
  CHECK(rights() == Paths{entry});
  CHECK(holds(filled.verify().findings[0].problem, "every user"));
  CHECK(filled.verify().findings[0].key == filled.artifact.key.hex());
  CHECK(is_bad(Fault::rights));
  // Group only.
  mode(filled.path, 0750);
  CHECK(rights() == Paths{entry});
  CHECK(holds(filled.verify().findings[0].problem, "its group"));
  // Where the folder is everybody's, all below it is: said once.
  mode(filled.path, 0777);
  CHECK(rights() == Paths{"."});
  CHECK(holds(filled.verify().findings[0].problem, "0777"));
  Store shared(filled.path, filled.files, filled.clock, StoreSettings{.shared = true});
  CHECK(verify_store(shared, *filled.files, filled.clock->unix_seconds())->findings.empty());

  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can give a file to another user");
    return;
  }
  mode(filled.path, 0755);
  mode(filled.entry(), 0644);
  REQUIRE(::chown(filled.entry().c_str(), 12345, 0) == 0);
  CHECK(rights() == Paths{entry});
  CHECK(holds(filled.verify().findings[0].problem, "belongs to user 12345, the store to user 0"));
}

TEST_CASE("verification: a store whose folder cannot be listed is an error, one whose inner folder cannot is a finding") {
  FilledStore filled;
  filled.files->fail_kind(FileOperation::list, EACCES);
  const auto verification = verify_store(filled.store, *filled.files, 0);
  REQUIRE_FALSE(verification);
  CHECK(verification.error().code == ErrorCode::io);
  // The first listing is the root's.
  int listings = 0;
  filled.files->work_again();
  filled.files->fail_where([&](FileOperation kind) { return kind == FileOperation::list && ++listings > 1 ? EACCES : 0; });
  const auto inner = verify_store(filled.store, *filled.files, 0);
  REQUIRE(inner);
  CHECK(inner->bad() == 4);  // entries, stamps, fits, compilers
  CHECK(std::ranges::all_of(inner->findings, [](const Finding& each) { return each.fault == Fault::unreadable; }));
}
