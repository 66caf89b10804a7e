// Bundles that are not what a bundle must be: each is refused whole, with the member and the reason, and the store stays as it was.
#include <doctest/doctest.h>

#include <functional>

#include "fixtures/example_bundle.hpp"
#include "fixtures/example_store.hpp"
#include "support/bundle/bundle_reader.hpp"
#include "support/bundle/unpack.hpp"

using namespace kernwright;
using namespace kernwright::support;
using namespace kernwright::tests;

namespace {

namespace fs = std::filesystem;
using Members = std::vector<RawMember>;

/// A store with something in it, and one that does not exist, which refused bundles must leave as they are.
class Stores {
 public:
  Stores() {
    REQUIRE(fill_example_store(folder_.path() / "filled"));
    before_ = snapshot(folder_.path() / "filled");
  }

  Result<Unpacked> unpack(const std::string& bytes, const char* store) const {
    write_file(file(), bytes);
    Store target = example_store(folder_.path() / store);
    const auto files = FileSystem::posix();
    return unpack_bundle(file(), target, *files, std::make_shared<PosixCalls>());
  }
  void refuse(const std::string& bytes, std::string_view part) const {
    for (const char* store : {"absent", "filled"}) {
      const auto unpacked = unpack(bytes, store);
      REQUIRE_FALSE(unpacked);
      CHECK(unpacked.error().code == ErrorCode::malformed);
      const std::string message = unpacked.error().message;
      CHECK_MESSAGE(message.starts_with("'" + file().native() + "' is refused, and nothing was written: "), message);
      CHECK_MESSAGE(message.find(part) != std::string::npos, message);
    }
    CHECK_FALSE(fs::exists(folder_.path() / "absent"));
    CHECK(snapshot(folder_.path() / "filled") == before_);
    // Nor beside them.
    CHECK(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()) == 2);
  }

 private:
  [[nodiscard]] fs::path file() const { return folder_.path() / "bundle"; }
  TemporaryFolder folder_;
  std::map<std::string, std::string> before_;
};

Members with(std::size_t index, const std::function<void(RawMember&)>& change) {
  Members members = example_bundle();
  change(members[index]);
  return members;
}
Members inserted(std::size_t index, RawMember member) {
  Members members = example_bundle();
  members.insert(members.begin() + static_cast<std::ptrdiff_t>(index), std::move(member));
  return members;
}
Members without(std::size_t index) {
  Members members = example_bundle();
  members.erase(members.begin() + static_cast<std::ptrdiff_t>(index));
  return members;
}
std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

struct Hostile {
  const char* what;
  Members members;
  const char* part;
};

void refuse_all(const std::vector<Hostile>& cases) {
  const Stores stores;
  for (const Hostile& each : cases) {
    CAPTURE(each.what);
    stores.refuse(bundle_file(each.members), each.part);
  }
}

constexpr std::size_t kManifest = 0, kRecord = 1, kEntry = 2, kSecondEntry = 3, kFit = 4;

}  // namespace

TEST_CASE("bundle refused: the bundle that the other cases spoil is itself accepted") {
  const Stores stores;
  const auto unpacked = stores.unpack(bundle_file(example_bundle()), "new");
  REQUIRE_MESSAGE(unpacked, unpacked.error().text());
  CHECK(unpacked->entries.added == 2);
  CHECK(unpacked->fits.added == 1);
}

TEST_CASE("bundle refused: names that are none of a bundle's") {
  const std::string entry = example_bundle()[kEntry].name;
  const std::string file = entry.substr(11);
  std::vector<Hostile> cases;
  for (const std::string& name : {"../" + file,
                                  std::string("../../etc/cron.d/x"),
                                  "entries/../" + entry,
                                  "entries/" + entry.substr(8, 2) + "/../../x.kwe",
                                  "/" + entry,
                                  std::string("/etc/passwd"),
                                  "./" + entry,
                                  "entries//" + entry.substr(8),
                                  "entries\\" + entry.substr(8, 2) + "\\" + file,
                                  "entries/" + file,
                                  "entries/zz/" + file,
                                  "entries/" + std::string(entry.substr(8, 2) == "00" ? "11" : "00") + "/" + file,
                                  file,
                                  entry + ".tmp",
                                  "entries/" + entry.substr(8, 3) + "." + file + ".1.0.tmp",
                                  "stamps/ab/" + file,
                                  std::string("builds.lock"),
                                  std::string("fits/x.toml"),
                                  std::string("fits/00112233445566778899AABBCCDDEEFF.toml"),
                                  std::string("fits/00112233445566778899aabbccddeeff.toml2"),
                                  std::string("fits/sub/00112233445566778899aabbccddeeff.toml"),
                                  std::string("compilers/0.toml"),
                                  std::string("C:\\x"),
                                  std::string("entries"),
                                  std::string("\xff\xfe\xc3"),
                                  std::string("entries/caf\xc3\xa9"),
                                  std::string("fits/\x01\x1b[31m")}) {
    cases.push_back({"a name", with(kEntry, [&](RawMember& member) { member.name = name; }), "its name is none of a bundle's"});
  }
  cases.push_back({"backslashes are escaped", with(kEntry, [](RawMember& member) { member.name = "\x1b[31m"; }), "member '\\x1b[31m'"});
  cases.push_back({"no name", with(kEntry, [](RawMember& member) { member.name = ""; }), "no name"});
  cases.push_back({"a NUL and more", with(kEntry, [](RawMember& member) { member.name += std::string("\0/../../x", 9); }), "tar header"});
  cases.push_back({"a prefix",
                   with(kEntry,
                        [](RawMember& member) {
                          member.prefix = "entries";
                          member.name = member.name.substr(8);
                        }),
                   "tar header"});
  refuse_all(cases);
}

TEST_CASE("bundle refused: members that are no regular files") {
  const auto of_type = [](char type, const std::string& link = {}) {
    return with(kEntry, [&](RawMember& member) {
      member.type = type;
      member.link = link;
      member.content.clear();
    });
  };
  const auto typed = [](char type) { return with(kEntry, [&](RawMember& member) { member.type = type; }); };
  refuse_all({
      {"a symbolic link", of_type('2', "/etc/passwd"), "is a symbolic link; only regular files are legal"},
      {"a symbolic link with data",
       with(kEntry,
            [](RawMember& member) {
              member.type = '2';
              member.link = "x";
            }),
       "is a symbolic link"},
      {"a hard link", of_type('1', "/etc/passwd"), "is a hard link"},
      {"a hard link to a member", of_type('1', example_bundle()[kRecord].name), "is a hard link"},
      {"a character device", of_type('3'), "is a device"},
      {"a block device", of_type('4'), "is a device"},
      {"a folder", of_type('5'), "is a folder"},
      {"a FIFO", of_type('6'), "is a FIFO"},
      {"a folder before its entry", inserted(kEntry, {.name = "entries/", .content = "", .type = '5'}), "'entries/' is a folder"},
      {"a name that ends as a folder's", with(kEntry, [](RawMember& member) { member.name += "/"; }), "is a folder"},
      {"a contiguous file", typed('7'), "tar header"},
      {"an old tar's file", typed('\0'), "tar header"},
      {"an unknown type", typed('Z'), "tar header"},
      {"the first member a link",
       with(kManifest,
            [](RawMember& member) {
              member.type = '2';
              member.link = "/etc/passwd";
              member.content.clear();
            }),
       "'bundle.toml' is a symbolic link"},
  });
}

TEST_CASE("bundle refused: order and number of members") {
  const Members good = example_bundle();
  Members swapped = good;
  std::swap(swapped[kEntry], swapped[kSecondEntry]);
  Members last = good;
  std::rotate(last.begin(), last.begin() + 1, last.end());
  refuse_all({
      {"an entry twice", inserted(kSecondEntry, good[kEntry]), "stands in the archive twice"},
      {"a record twice", inserted(kEntry, good[kRecord]), "stands in the archive twice"},
      {"an entry twice, apart", inserted(kFit, good[kEntry]), "members are sorted by name, each there once"},
      {"two entries swapped", swapped, "members are sorted by name"},
      {"a second manifest", inserted(kRecord, good[kManifest]), "its name is none of a bundle's"},
      {"the manifest last", last, "its first member is 'compilers/"},
      {"no manifest", without(kManifest), "that of a bundle is 'bundle.toml'"},
      {"nothing", {}, "its tar archive is empty"},
      {"only a manifest", {good[kManifest]}, "says entries: 2; the archive holds 0"},
      {"an entry less", without(kSecondEntry), "says entries: 2; the archive holds 1"},
      {"a fit less", without(kFit), "says fits: 1; the archive holds 0"},
  });
}

TEST_CASE("bundle refused: a manifest that says something else") {
  const auto manifest = [](std::string_view from, std::string_view to) {
    return with(kManifest, [&](RawMember& member) { member.content = replaced(member.content, from, to); });
  };
  refuse_all({
      {"another format", manifest("format = 1", "format = 2"), "reads format 1"},
      {"no format", manifest("format = 1\n", ""), "'format' is missing"},
      {"more entries", manifest("entries = 2", "entries = 3"), "says entries: 3; the archive holds 2"},
      {"fewer fits", manifest("fits = 1", "fits = 0"), "says fits: 0; the archive holds 1"},
      {"a negative count", manifest("fits = 1", "fits = -1"), "'fits' is -1"},
      {"a target less", manifest("[\"sm_90a\"]", "[]"), "says targets: ; the archive holds sm_90a"},
      {"a target more", manifest("[\"sm_90a\"]", "[\"host\", \"sm_90a\"]"), "the archive holds sm_90a"},
      {"another version", manifest("\"13.0\"", "\"13.1\""), "lists 1 compilers that are not the 1 of the archive"},
      {"an unknown key", manifest("fits = 1", "fits = 1\nhost = \"here\""), "'host' is not known"},
      {"a comment", manifest("fits = 1", "fits = 1  # mine"), "not in the form that its format gives"},
      {"no TOML", with(kManifest, [](RawMember& member) { member.content = "\x89PNG"; }), "bundle.toml"},
      {"more than a megabyte", with(kManifest, [](RawMember& member) { member.content += std::string(1 << 20, '\n'); }), "at most 1048576"},
  });
}

TEST_CASE("bundle refused: entries and records that do not hold what their names say") {
  const Members good = example_bundle();
  const auto content = [](std::size_t index, const std::function<void(std::string&)>& change) {
    return with(index, [&](RawMember& member) { change(member.content); });
  };
  Artifact foreign = example_artifact_with(64, 600);
  foreign.compiler.version = "12.9";
  foreign.key = entry_key(foreign.request, foreign.compiler);
  const std::string other_record = compiler_record_name(foreign.compiler);
  Members unused = good;
  unused.insert(unused.begin() + (other_record < compiler_record_name(example_compiler()) ? 1 : 2),
                {.name = "compilers/" + other_record + ".toml", .content = write_compiler_record(foreign.compiler)});
  Members by_foreign{good[kManifest], good[kRecord], {.name = entry_name(foreign.key.hex()), .content = entry_bytes(foreign)}};
  refuse_all({
      {"a flipped bit", content(kEntry, [](std::string& bytes) { bytes[200] = static_cast<char>(bytes[200] ^ 1); }), "checksum"},
      {"cut short", content(kEntry, [](std::string& bytes) { bytes.pop_back(); }), "member 'entries/"},
      {"too long", content(kEntry, [](std::string& bytes) { bytes += '\0'; }), "member 'entries/"},
      {"empty", content(kEntry, [](std::string& bytes) { bytes.clear(); }), "member 'entries/"},
      {"under another key", with(kEntry, [&](RawMember& member) { member.content = good[kSecondEntry].content; }),
       "it holds the entry of another key"},
      {"an entry larger than any", with(kEntry, [](RawMember& member) { member.size = octal((256U << 20) + 1, 11) + " "; }),
       "at most 268435456 are legal"},
      {"a record larger than any", content(kRecord, [](std::string& bytes) { bytes += std::string(1 << 20, '\n'); }), "at most 1048576"},
      {"a fit larger than any", content(kFit, [](std::string& bytes) { bytes += std::string(1 << 20, '\n'); }), "at most 1048576"},
      {"no record", without(kRecord), "is not among the bundle's records"},
      {"an entry of another compiler", by_foreign, "is not among the bundle's records"},
      {"a record of another compiler", with(kRecord, [&](RawMember& member) { member.content = write_compiler_record(foreign.compiler); }),
       "another compiler than its name says"},
      {"a record that no entry names", unused, "no entry names the compiler"},
      {"a record with a comment", content(kRecord, [](std::string& bytes) { bytes += "# mine\n"; }), "not in the form"},
      {"a damaged record", content(kRecord, [](std::string& bytes) { bytes = "name = 1"; }), "member 'compilers/"},
      {"a damaged fit", content(kFit, [](std::string& bytes) { bytes = replaced(bytes, "= \"mma:m64n32s2w8\"", "= \"mma\""); }),
       "member 'fits/"},
      {"a fit with a comment", content(kFit, [](std::string& bytes) { bytes += "# mine\n"; }), "not in the form"},
      {"a fit for no target", content(kFit, [](std::string& bytes) { bytes = replaced(bytes, "sm_90a", "sm_banana"); }), "sm_banana"},
  });
}
