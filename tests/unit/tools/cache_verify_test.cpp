// kernwright cache verify
#include <sys/stat.h>

#include <algorithm>

#include "unit/tools/example_store.hpp"
#include "unit/tools/program.hpp"

using namespace kernwright;
using namespace kernwright::tests;
using Json = nlohmann::json;

namespace {

namespace fs = std::filesystem;

/// The finding about this path of a store.
Json finding(const Json& json, std::size_t store, const std::string& path) {
  for (const Json& each : json["stores"][store]["findings"]) {
    if (each["path"] == path) return each;
  }
  FAIL(json.dump(2));
  return {};
}

}  // namespace

TEST_CASE("cache verify: a sound store is exit code 0, also before it is there") {
  const TemporaryFolder folder;
  ExampleStore example(folder.path() / "store");
  CHECK(kernwright_program({"cache", "verify"}, in_store(example.path())).exit_code == 0);
  CHECK_FALSE(fs::exists(example.path()));
  example.add(example_artifact());
  example.add(example_plans());
  const ChildResult result = kernwright_program({"cache", "verify"}, in_store(example.path()));
  CHECK_MESSAGE(result.exit_code == 0, result.out);
  CHECK(result.out == "store " + example.path().string() + " (writable)\n2 entries, 0 fits and 1 compiler verified: 0 bad\n");
}

TEST_CASE("cache verify: every store's faults are named, counted, and exit code 1") {
  const TemporaryFolder folder;
  ExampleStore read_only(folder.path() / "read_only"), writable(folder.path() / "writable");
  const Artifact artifact = example_artifact();
  const fs::path far = read_only.add(artifact);
  write_file(far, "short");
  writable.add(artifact);
  writable.add_fit();
  write_file(writable.path() / "notes.txt", "");
  write_file(writable.path() / "fits" / ".old.tmp", "");
  set_file_time(writable.path() / "fits" / ".old.tmp", Clock::system()->unix_seconds() - 3 * 3600 - 1800);
  ChildOptions options = in_store(writable.path());
  options.environment["KERNWRIGHT_CACHE_STORES"] = read_only.path().string();
  const ChildResult result = kernwright_program({"cache", "verify", "--json"}, options);
  CHECK(result.exit_code == 1);
  const Json json = json_of(result);
  CHECK(json["bad"] == 1);
  const std::string entry = far.lexically_relative(read_only.path()).string();
  CHECK(finding(json, 0, entry)["fault"] == "bad entry");
  CHECK(finding(json, 0, entry)["bad"] == true);
  CHECK(finding(json, 0, entry)["key"] == artifact.key.hex());
  CHECK(finding(json, 1, "notes.txt")["bad"] == false);
  CHECK(std::abs(finding(json, 1, "fits/.old.tmp")["age_seconds"].get<std::int64_t>() - 3 * 3600 - 1800) < 100);
  // The example's template is none of this program's.
  const Json stale = finding(json, 1, "fits/" + example_fit_key().hex() + ".toml");
  CHECK(stale["fault"] == "stale fit");
  CHECK(stale["bad"] == false);

  const std::string text = kernwright_program({"cache", "verify"}, options).out;
  CHECK_CONTAINS(text, "store " + read_only.path().string() + " (read-only)\nBAD " + artifact.key.hex() + ": it has 5 bytes");
  CHECK_CONTAINS(text, "note notes.txt: unexpected: ");
  CHECK_CONTAINS(text, "note fits/.old.tmp: leftover: a process ended while it wrote this file, 3 h ago\n");
  CHECK_CONTAINS(text, "1 entry, 1 fit and 1 compiler verified: 0 bad, 3 notes\n");
  // One store alone.
  CHECK(kernwright_program({"cache", "verify", "--store", writable.path().string()}, options).exit_code == 0);
  CHECK(kernwright_program({"cache", "verify", "--store", read_only.path().string()}, options).exit_code == 1);
}

TEST_CASE("cache verify: a fit of a tile that its template does not offer is told, one that it offers is not") {
  const TemporaryFolder folder;
  ExampleStore example(folder.path() / "store");
  Fit fit = example_fit();
  fit.template_name = "sparse_mla/prefill";
  fit.asked = *Tile::parse("mma:m64n32s2w8");
  fit.fitted = *Tile::parse("mma:m16n32s2w4");
  const std::string used = example.add_fit(fit, 'a').filename().string();
  fit.fitted = {"mma", 7, 32, 2, 4};
  const std::string stale = example.add_fit(fit, 'b').filename().string();
  const Json json = json_of(kernwright_program({"cache", "verify", "--json"}, in_store(example.path())));
  REQUIRE(json["stores"][0]["findings"].size() == 1);
  CHECK(json["stores"][0]["findings"][0]["path"] == "fits/" + stale);
  CHECK_CONTAINS(json["stores"][0]["findings"][0]["problem"].get<std::string>(), "m7");
}

TEST_CASE("cache verify: a read-only store that is named and not there is bad") {
  const TemporaryFolder folder;
  ChildOptions options = in_store(folder.path() / "store");
  options.environment["KERNWRIGHT_CACHE_STORES"] = (folder.path() / "typo").string();
  const ChildResult result = kernwright_program({"cache", "verify"}, options);
  CHECK(result.exit_code == 1);
  CHECK_CONTAINS(result.out, "typo (read-only)\nBAD .: unreadable: there is no such folder\n");
}

TEST_CASE("cache verify: --remove-bad removes what is bad from the writable store, and nothing else") {
  const TemporaryFolder folder;
  ExampleStore read_only(folder.path() / "read_only"), writable(folder.path() / "writable");
  const Artifact artifact = example_artifact(), good = example_artifact_with(16, 100);
  const fs::path far = read_only.add(artifact), near = writable.add(artifact), kept = writable.add(good);
  const fs::path fit = writable.add_fit();
  write_file(far, "short");
  write_file(near, "short");
  write_file(fit, "short");
  write_file(writable.path() / "compilers" / "00112233445566778899aabbccddeeff.toml", "short");
  write_file(writable.path() / "notes.txt", "kept");
  ChildOptions options = in_store(writable.path());
  options.environment["KERNWRIGHT_CACHE_STORES"] = read_only.path().string();
  const ChildResult result = kernwright_program({"cache", "verify", "--remove-bad", "--json"}, options);
  CHECK(result.exit_code == 1);  // the read-only store's stays
  const Json json = json_of(result);
  CHECK(json["bad"] == 1);
  CHECK(json["stores"][0]["removed"].empty());
  CHECK(json["stores"][1]["removed"].size() == 3);
  CHECK(fs::exists(far));
  CHECK_FALSE(fs::exists(near));
  CHECK_FALSE(fs::exists(fit));
  CHECK(fs::exists(kept));
  CHECK(read_file(writable.path() / "notes.txt") == "kept");
  CHECK(writable.store().compilers()->size() == 1);
  write_file(near, "short");
  const ChildResult text = kernwright_program({"cache", "verify", "--remove-bad", "--store", writable.path().string()}, options);
  CHECK_MESSAGE(text.exit_code == 0, text.out);
  CHECK_CONTAINS(text.out, "removed " + near.lexically_relative(writable.path()).string() + "\n");
}

TEST_CASE("cache verify: a folder that every user may write to is bad, unless the store is said to be shared") {
  const TemporaryFolder folder;
  ExampleStore example(folder.path() / "store");
  example.add(example_artifact());
  REQUIRE(::chmod(example.path().c_str(), 0777) == 0);
  ChildOptions options = in_store(example.path());
  const ChildResult result = kernwright_program({"cache", "verify"}, options);
  CHECK(result.exit_code == 1);
  CHECK_CONTAINS(result.out, "BAD .: rights: every user may write to it (mode 0777)");
  options.environment["KERNWRIGHT_CACHE_SHARED"] = "1";
  CHECK(kernwright_program({"cache", "verify"}, options).exit_code == 0);
}
