// Packing and unpacking: what goes in comes out, equal stores give equal bytes, and only what a store lacks is written.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <set>

#include "fixtures/example_store.hpp"
#include "fixtures/faulty_file_system.hpp"
#include "store/compiler_record.hpp"
#include "store/entry_format.hpp"
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

Result<Packed> pack(const fs::path& store, const fs::path& file, const std::vector<const char*>& targets = {}) {
  const auto files = FileSystem::posix();
  PackSource source{*files, store, {}};
  for (const char* target : targets) source.targets.push_back(*Target::parse(target));
  return pack_bundle(source, file, std::make_shared<PosixCalls>());
}

Result<Unpacked> unpack(const fs::path& file, const fs::path& folder) {
  Store store = example_store(folder);
  const auto files = FileSystem::posix();
  return unpack_bundle(file, store, *files, std::make_shared<PosixCalls>());
}

std::string text(const MergeCount& count) {
  return std::to_string(count.added) + " " + std::to_string(count.present) + " " + std::to_string(count.replaced);
}

/// As the page gives it for the example store. The records' names are the library's: entry_v1.py computes such a name on its own.
std::string example_manifest() {
  std::map<std::string, std::string> compilers;
  compilers[compiler_record_name(example_compiler())] = "name = \"nvrtc\"\nversion = \"13.0\"\n";
  compilers[compiler_record_name(example_host_compiler())] =
      "name = \"host\"\nversion = \"g++ (Debian 12) \\\"12.2.0\\\"\\nFree Software\"\n";
  std::string manifest = "format = 1\nentries = 4\nfits = 3\ntargets = [\"host\", \"sm_100a\", \"sm_90a\"]\n";
  for (const auto& [record, rest] : compilers) manifest += "\n[[compiler]]\nrecord = \"" + record + "\"\n" + rest;
  return manifest;
}

fs::path entry_file(const fs::path& store, const Artifact& artifact) {
  const std::string hex = artifact.key.hex();
  return store / "entries" / hex.substr(0, 2) / (hex + ".kwe");
}

void flip_a_byte(const fs::path& file) {
  std::string bytes = read_file(file);
  REQUIRE(bytes.size() > 200);
  bytes[bytes.size() - 50] = static_cast<char>(bytes[bytes.size() - 50] ^ 1);
  write_file(file, bytes);
}

}  // namespace

TEST_CASE("bundle: several targets, compilers and fits come out as they went in, and every entry hits") {
  const TemporaryFolder folder;
  REQUIRE(fill_example_store(folder.path() / "one"));
  const auto packed = pack(folder.path() / "one", folder.path() / "bundle.tar.zst");
  REQUIRE_MESSAGE(packed, packed.error().text());
  CHECK(packed->left_out.empty());
  CHECK(packed->contents.entries == 4);
  CHECK(packed->contents.fits == 3);
  CHECK(packed->contents.targets == std::vector<std::string>{"host", "sm_100a", "sm_90a"});
  CHECK(packed->contents.compilers.size() == 2);
  CHECK(packed->size == Bytes{fs::file_size(folder.path() / "bundle.tar.zst")});

  const auto unpacked = unpack(folder.path() / "bundle.tar.zst", folder.path() / "made" / "two");
  REQUIRE_MESSAGE(unpacked, unpacked.error().text());
  CHECK(unpacked->contents == packed->contents);
  CHECK(text(unpacked->entries) == "4 0 0");
  CHECK(text(unpacked->fits) == "3 0 0");
  CHECK(text(unpacked->compilers) == "2 0 0");
  CHECK(snapshot(folder.path() / "made" / "two") == snapshot(folder.path() / "one"));
  Store two = example_store(folder.path() / "made" / "two");
  for (const Artifact& artifact : example_artifacts()) {
    const auto lookup = two.read(artifact.key, artifact.request, artifact.compiler);
    REQUIRE(lookup.outcome == Store::Outcome::hit);
    CHECK(lookup.artifact->binary == artifact.binary);
  }
  for (const ExampleFit& each : example_fits()) CHECK(two.read_fit(each.key, nullptr) == each.fit);
  CHECK(two.compilers()->size() == 2);

  const auto again = unpack(folder.path() / "bundle.tar.zst", folder.path() / "made" / "two");
  REQUIRE(again);
  CHECK(text(again->entries) == "0 4 0");
  CHECK(text(again->fits) == "0 3 0");
  CHECK(text(again->compilers) == "0 2 0");
}

TEST_CASE("bundle: its bytes are those that the page gives, and no path of this machine is among them") {
  const TemporaryFolder folder;
  const fs::path store = folder.path() / "store";
  REQUIRE(fill_example_store(store));
  REQUIRE(pack(store, folder.path() / "bundle"));
  const std::string bundle = read_file(folder.path() / "bundle");
  const std::string archive = zstd_content(bundle);
  CHECK(archive == tar_archive(bundle_members(store, example_manifest())));
  CHECK_FALSE(holds(archive, folder.path().native()));
  // RFC 8878: magic; then a descriptor that says: no content size, no dictionary, a checksum; then a window of 2^23 bytes.
  CHECK(bundle.substr(0, 6) == std::string("\x28\xb5\x2f\xfd\x04\x68", 6));
  CHECK(ZSTD_findFrameCompressedSize(bundle.data(), bundle.size()) == bundle.size());
}

TEST_CASE("bundle: the golden bundle is read, and packed again to the same archive") {
  const fs::path golden = fs::path(KERNWRIGHT_TEST_CASES) / "bundle_v1.tar.zst";
  const TemporaryFolder folder;
  const auto unpacked = unpack(golden, folder.path() / "store");
  REQUIRE_MESSAGE(unpacked, unpacked.error().text());
  CHECK(text(unpacked->entries) == "1 0 0");
  CHECK(text(unpacked->fits) == "1 0 0");
  CHECK(text(unpacked->compilers) == "1 0 0");
  const Artifact artifact = example_artifact();
  CHECK(read_file(entry_file(folder.path() / "store", artifact)) == read_file(fs::path(KERNWRIGHT_TEST_CASES) / "entry_v1.kwe"));
  REQUIRE(pack(folder.path() / "store", folder.path() / "again"));
  CHECK(zstd_content(read_file(folder.path() / "again")) == zstd_content(read_file(golden)));
}

TEST_CASE("bundle: stores that are equal give equal bytes, whatever their folders, times, order of writing and litter") {
  const TemporaryFolder folder;
  const fs::path one = folder.path() / "one";
  const fs::path two = folder.path() / "another folder" / "two";
  REQUIRE(fill_example_store(one));
  REQUIRE(fill_example_store(two, true));
  for (const auto& entry : fs::recursive_directory_iterator(two)) {
    fs::last_write_time(entry.path(), fs::file_time_type::clock::now() - std::chrono::hours(1000));
    if (entry.is_regular_file()) fs::permissions(entry.path(), fs::perms::owner_read);
  }
  const std::string hex = example_artifacts()[0].key.hex();
  write_file(two / "entries" / hex.substr(0, 2) / ("." + hex + ".kwe.1.0000000000000000.tmp"), "half");
  write_file(two / "entries" / hex.substr(0, 2) / (hex + ".kwe.displaced-1") / "kept", "theirs");
  write_file(two / "entries" / (hex.substr(0, 2) == "00" ? "11" : "00") / (hex + ".kwe"), "in a shard that is not its own");
  write_file(two / "entries" / "notes.txt", "mine");
  write_file(two / "entries" / "ff", "a file in a shard's place");
  write_file(two / "fits" / "README", "mine");
  write_file(two / "stamps" / hex.substr(0, 2) / hex, "");
  write_file(two / "compilers" / (std::string(32, '0') + ".toml"), "damaged");
  REQUIRE(pack(one, folder.path() / "1.tar.zst"));
  const auto packed = pack(two, folder.path() / "2.tar.zst");
  REQUIRE_MESSAGE(packed, packed.error().text());
  CHECK(packed->left_out.empty());
  CHECK(read_file(folder.path() / "1.tar.zst") == read_file(folder.path() / "2.tar.zst"));
}

TEST_CASE("bundle: only the targets asked for, with their fits and compilers") {
  const TemporaryFolder folder;
  REQUIRE(fill_example_store(folder.path() / "store"));
  const fs::path file = folder.path() / "bundle";
  const auto host = pack(folder.path() / "store", file, {"host"});
  REQUIRE_MESSAGE(host, host.error().text());
  CHECK(host->contents.entries == 1);
  CHECK(host->contents.fits == 1);
  REQUIRE(host->contents.compilers.size() == 1);
  CHECK(host->contents.compilers[0].name == "host");
  const auto unpacked = unpack(file, folder.path() / "hosts");
  REQUIRE_MESSAGE(unpacked, unpacked.error().text());
  CHECK(unpacked->contents.targets == std::vector<std::string>{"host"});
  CHECK(example_store(folder.path() / "hosts").list()->size() == 1);

  const auto both = pack(folder.path() / "store", file, {"sm_90a", "sm_100a"});
  REQUIRE(both);
  CHECK(both->contents.entries == 3);
  CHECK(both->contents.fits == 2);
  CHECK(both->contents.compilers[0].name == "nvrtc");

  const auto missing = pack(folder.path() / "store", folder.path() / "none", {"sm_90a", "sm_90"});
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::not_found);
  CHECK(holds(missing.error().message, "no entry for sm_90, only for host, sm_100a, sm_90a"));
  CHECK_FALSE(fs::exists(folder.path() / "none"));
}

TEST_CASE("bundle: a store without an entry is not packed, and not made either") {
  const TemporaryFolder folder;
  const auto packed = pack(folder.path() / "absent", folder.path() / "bundle");
  REQUIRE_FALSE(packed);
  CHECK(packed.error().code == ErrorCode::not_found);
  CHECK(holds(packed.error().message, "kernwright warm"));
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("bundle: what is bad is named and left out, and the rest is packed") {
  const TemporaryFolder folder;
  const fs::path store = folder.path() / "store";
  REQUIRE(fill_example_store(store));
  const auto artifacts = example_artifacts();
  flip_a_byte(entry_file(store, artifacts[0]));
  // The host entry once more, under the key of an sm_90a one.
  write_file(entry_file(store, artifacts[1]), read_file(entry_file(store, artifacts[3])));
  Artifact foreign = example_artifact_for("sm_80", {"nvrtc", "13.0 \xff", {}}, 32);
  REQUIRE(example_store(store).publish(foreign));
  const std::string fifo = std::string(30, 'a') + "00";
  REQUIRE(fs::create_directories(store / "entries" / "aa"));
  REQUIRE(::mkfifo((store / "entries" / "aa" / (fifo + ".kwe")).c_str(), 0600) == 0);
  write_file(store / "fits" / (std::string(32, '1') + ".toml"), "format = 1\n");
  ExampleFit odd = example_fit_for("sm_banana", "odd");
  REQUIRE(example_store(store).publish_fit(odd.key, odd.fit));

  const auto packed = pack(store, folder.path() / "bundle");
  REQUIRE_MESSAGE(packed, packed.error().text());
  const auto problem_of = [&](const std::string& key) {
    for (const LeftOut& each : packed->left_out) {
      if (holds(each.name, key)) return each.problem;
    }
    return std::string();
  };
  CHECK(packed->left_out.size() == 6);
  CHECK(holds(problem_of(artifacts[0].key.hex()), "checksum"));
  CHECK(holds(problem_of(artifacts[1].key.hex()), artifacts[3].key.hex()));
  CHECK(holds(problem_of(foreign.key.hex()), "UTF-8"));
  CHECK(holds(problem_of(fifo), "FIFO"));
  CHECK(holds(problem_of(std::string(32, '1')), "stands 0 times"));
  CHECK(holds(problem_of(odd.key.hex()), "sm_banana"));
  CHECK(packed->contents.entries == 2);
  CHECK(packed->contents.fits == 3);
  const auto unpacked = unpack(folder.path() / "bundle", folder.path() / "two");
  REQUIRE_MESSAGE(unpacked, unpacked.error().text());
  CHECK(text(unpacked->entries) == "2 0 0");
}

TEST_CASE("bundle: what the store has stays, what it lacks is added, what is bad is replaced") {
  const TemporaryFolder folder;
  const fs::path store = folder.path() / "two";
  REQUIRE(fill_example_store(folder.path() / "one"));
  REQUIRE(pack(folder.path() / "one", folder.path() / "bundle"));
  const auto artifacts = example_artifacts();
  const auto fits = example_fits();
  // The same key, built at another time: it is this store's own, and valid.
  Artifact own = artifacts[0];
  own.compile_seconds = 77;
  REQUIRE(example_store(store).publish(own));
  REQUIRE(example_store(store).publish(artifacts[1]));
  flip_a_byte(entry_file(store, artifacts[1]));
  const Artifact other = example_artifact_for("sm_120a", {"nvrtc", "12.9", {}}, 64);
  REQUIRE(example_store(store).publish(other));
  Fit own_fit = fits[0].fit;
  own_fit.fitted = {"portable", 16, 16, 1, 4};
  REQUIRE(example_store(store).publish_fit(fits[0].key, own_fit));
  write_file(store / "fits" / (fits[1].key.hex() + ".toml"), "no fit");
  const fs::path host_record = store / "compilers" / (compiler_record_name(example_host_compiler()) + ".toml");
  write_file(host_record, "no compiler");
  const std::string own_bytes = read_file(entry_file(store, own));

  const auto unpacked = unpack(folder.path() / "bundle", store);
  REQUIRE_MESSAGE(unpacked, unpacked.error().text());
  CHECK(text(unpacked->entries) == "2 1 1");
  CHECK(text(unpacked->fits) == "1 1 1");
  CHECK(text(unpacked->compilers) == "0 1 1");
  CHECK(read_file(entry_file(store, own)) == own_bytes);
  CHECK(fs::exists(entry_file(store, other)));
  Store two = example_store(store);
  CHECK(two.read_fit(fits[0].key, nullptr) == own_fit);
  CHECK(two.read_fit(fits[1].key, nullptr) == fits[1].fit);
  for (const Artifact& artifact : artifacts)
    CHECK(two.read(artifact.key, artifact.request, artifact.compiler).outcome == Store::Outcome::hit);
  CHECK(two.compilers()->size() == 3);
  CHECK(read_file(host_record) == write_compiler_record(example_host_compiler()));
}

TEST_CASE("bundle: an entry that is present but whose compiler is not listed lists it") {
  const TemporaryFolder folder;
  REQUIRE(fill_example_store(folder.path() / "one"));
  REQUIRE(pack(folder.path() / "one", folder.path() / "bundle"));
  fs::remove_all(folder.path() / "one" / "compilers");
  const auto unpacked = unpack(folder.path() / "bundle", folder.path() / "one");
  REQUIRE(unpacked);
  CHECK(text(unpacked->entries) == "0 4 0");
  CHECK(text(unpacked->compilers) == "2 0 0");
  CHECK(example_store(folder.path() / "one").compilers()->size() == 2);
}
