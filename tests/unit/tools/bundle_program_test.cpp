// `kernwright cache pack` and `unpack` as a child process, on stores that the test writes.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "fixtures/example_bundle.hpp"
#include "fixtures/example_store.hpp"
#include "unit/tools/child_process.hpp"

using namespace kernwright;
using namespace kernwright::tests;
using Json = nlohmann::json;

namespace {

namespace fs = std::filesystem;

/// Runs in a store, as another user's home would have it.
ChildResult cache(const fs::path& store, std::vector<std::string> words, const std::string& home = "/nonexistent") {
  words.insert(words.begin(), "cache");
  ChildOptions options;
  options.environment = {
      {"KERNWRIGHT_CACHE_DIR", store.string()}, {"KERNWRIGHT_LOG", ""}, {"HOME", home}, {"USER", home}, {"LOGNAME", home}};
  ChildResult result = run_child(KERNWRIGHT_PROGRAM, words, options);
  CHECK(result.exited);
  return result;
}

Json json_of(const ChildResult& result) {
  const Json json = Json::parse(result.out, nullptr, false);
  REQUIRE_MESSAGE(!json.is_discarded(), result.out << result.err);
  return json;
}

void check_failed(const ChildResult& result, int code, std::string_view part) {
  CHECK_MESSAGE(result.exit_code == code, result.err);
  CHECK(result.out.empty());
  CHECK_MESSAGE(result.err.find(part) != std::string::npos, result.err);
}

}  // namespace

TEST_CASE("command line: cache pack and unpack carry a store, and say what they did") {
  const TemporaryFolder folder;
  const fs::path one = folder.path() / "one";
  const fs::path two = folder.path() / "made" / "two";
  const std::string file = (folder.path() / "bundle.tar.zst").string();
  REQUIRE(fill_example_store(one));
  const ChildResult packed = cache(one, {"pack", file, "--json"});
  REQUIRE_MESSAGE(packed.exit_code == 0, packed.err);
  CHECK(packed.err.empty());
  const Json pack = json_of(packed);
  CHECK(pack["store"] == one.string());
  CHECK(pack["file"] == file);
  CHECK(pack["size"] == fs::file_size(file));
  CHECK(pack["entries"] == 4);
  CHECK(pack["fits"] == 3);
  CHECK(pack["targets"] == Json{"host", "sm_100a", "sm_90a"});
  CHECK(pack["compilers"].size() == 2);
  CHECK(pack["left_out"].empty());

  const ChildResult unpacked = cache(two, {"unpack", file, "--json"}, "/elsewhere");
  REQUIRE_MESSAGE(unpacked.exit_code == 0, unpacked.err);
  const Json unpack = json_of(unpacked);
  CHECK(unpack["store"] == two.string());
  CHECK(unpack["added"] == Json{{"entries", 4}, {"fits", 3}, {"compilers", 2}});
  CHECK(unpack["present"] == Json{{"entries", 0}, {"fits", 0}, {"compilers", 0}});
  CHECK(unpack["replaced"] == Json{{"entries", 0}, {"fits", 0}, {"compilers", 0}});
  CHECK(unpack["targets"] == pack["targets"]);
  CHECK(unpack["compilers"] == pack["compilers"]);
  CHECK(snapshot(two) == snapshot(one));
  CHECK(cache(two, {"verify"}).exit_code == 0);

  // The same bytes from another folder, home and user, over a file that is there.
  const std::string again = (folder.path() / "again").string();
  write_file(again, "old");
  const ChildResult text = cache(two, {"pack", again}, "/elsewhere");
  CHECK(text.exit_code == 0);
  CHECK_MESSAGE(text.out.find("packed 4 entries and 3 fits for host, sm_100a, sm_90a into " + again) != std::string::npos, text.out);
  CHECK(read_file(again) == read_file(file));
  const ChildResult once_more = cache(two, {"unpack", again});
  CHECK_MESSAGE(once_more.out.find("entries    0 added, 4 present already, 0 in place of bad ones") != std::string::npos, once_more.out);

  const Json host = json_of(cache(one, {"pack", file, "--target", "host", "--json"}));
  CHECK(host["entries"] == 1);
  CHECK(host["targets"] == Json{"host"});
  CHECK(json_of(cache(one, {"pack", file, "--target", "sm_90a,sm_100a", "--json"}))["entries"] == 3);
}

TEST_CASE("command line: cache pack names a bad entry, leaves it out, and is exit code 1") {
  const TemporaryFolder folder;
  const fs::path store = folder.path() / "store";
  REQUIRE(fill_example_store(store));
  const std::string hex = example_artifacts()[0].key.hex();
  write_file(store / "entries" / hex.substr(0, 2) / (hex + ".kwe"), "damaged");
  const std::string file = (folder.path() / "bundle").string();
  const ChildResult packed = cache(store, {"pack", file, "--json"});
  CHECK(packed.exit_code == 1);
  const Json json = json_of(packed);
  CHECK(json["entries"] == 3);
  REQUIRE(json["left_out"].size() == 1);
  CHECK(json["left_out"][0]["name"] == entry_name(hex));
  CHECK(!json["left_out"][0]["problem"].get<std::string>().empty());
  const ChildResult text = cache(store, {"pack", file});
  CHECK(text.exit_code == 1);
  CHECK_MESSAGE(text.out.find("LEFT OUT " + entry_name(hex)) != std::string::npos, text.out);
  CHECK(json_of(cache(folder.path() / "two", {"unpack", file, "--json"}))["added"]["entries"] == 3);
}

TEST_CASE("command line: cache unpack refuses a hostile bundle whole, with code 2") {
  const TemporaryFolder folder;
  const fs::path store = folder.path() / "store";
  const std::string file = (folder.path() / "bundle").string();
  auto members = example_bundle();
  members[4].name = "../../escape.toml";
  write_file(file, bundle_file(members));
  check_failed(cache(store, {"unpack", file}), 2, "member '../../escape.toml': its name is none of a bundle's");
  members = example_bundle();
  members[4].type = '2';
  members[4].link = "/etc/passwd";
  write_file(file, bundle_file(members));
  check_failed(cache(store, {"unpack", file, "--json"}), 2, "is a symbolic link");
  write_file(file, "#!/bin/sh\n");
  check_failed(cache(store, {"unpack", file}), 2, "it is a text file");
  CHECK_FALSE(fs::exists(store));
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("command line: cache pack and unpack with words that are off, and on a machine that cannot do it") {
  const TemporaryFolder folder;
  const fs::path store = folder.path() / "store";
  REQUIRE(fill_example_store(store));
  const std::string file = (folder.path() / "bundle").string();
  check_failed(cache(store, {"pack"}), 2, "file");
  check_failed(cache(store, {"unpack"}), 2, "file");
  check_failed(cache(store, {"pack", file, "--target", "sm_90a,gpu"}), 2, "--target sm_90a,gpu: target 'gpu' is none of");
  check_failed(cache(store, {"pack", file, "--target", "sm_80"}), 2, "no entry for sm_80, only for host, sm_100a, sm_90a");
  check_failed(cache(folder.path() / "absent", {"pack", file}), 2, "kernwright warm");
  check_failed(cache(store, {"pack", folder.path().string()}), 2, "is a folder");
  check_failed(cache(store, {"unpack", file}), 2, "No such file");
  check_failed(cache(store, {"unpack", folder.path().string()}), 3, "it is a folder");
  CHECK_FALSE(fs::exists(file));
  write_file(file, bundle_file(example_bundle()));
  check_failed(cache("/proc/no/such", {"unpack", file}), 3, "/proc/no");
}

TEST_CASE("command line: the program needs no library of those that are linked into it") {
  const std::string program = read_file(KERNWRIGHT_PROGRAM);
  REQUIRE(program.find("libc.so") != std::string::npos);
  for (const char* library : {"libarchive.so", "libzstd.so", "liblzma.so", "libxml2.so", "libbz2.so", "libz.so", "liblz4.so",
                              "libnettle.so", "libacl.so", "libboost_context.so", "libfmt.so"}) {
    CAPTURE(library);
    CHECK(program.find(library) == std::string::npos);
  }
}
