#include "store/entry_format.hpp"

#include <doctest/doctest.h>

#include "fixtures/example_artifact.hpp"
#include "fixtures/temporary_folder.hpp"
#include "platform/file_system.hpp"
#include "store/entry_layout.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::byte> entry_of(const Artifact& artifact) {
  auto file = encode_entry(artifact);
  REQUIRE_MESSAGE(file, (file ? "" : file.error().text()));
  return *file;
}

Result<Artifact> decode_example(std::span<const std::byte> file) {
  const BuildRequest request = example_request();
  const CompilerIdentity compiler = example_compiler();
  return decode_entry_for(file, {entry_key(request, compiler), request, compiler});
}

void check_equal(const Artifact& read, const Artifact& artifact) {
  CHECK(read.key == artifact.key);
  CHECK(read.request.kind == artifact.request.kind);
  CHECK(read.request.template_name == artifact.request.template_name);
  CHECK(read.request.entry == artifact.request.entry);
  CHECK(read.request.specialisation == artifact.request.specialisation);
  CHECK(read.request.tiles == artifact.request.tiles);
  CHECK(read.request.target == artifact.request.target);
  CHECK(read.request.options == artifact.request.options);
  CHECK(read.compiler == artifact.compiler);
  CHECK(read.plans == artifact.plans);
  CHECK(read.resources.registers == artifact.resources.registers);
  CHECK(read.resources.static_shared == artifact.resources.static_shared);
  CHECK(read.resources.stack_frame == artifact.resources.stack_frame);
  CHECK(read.resources.spill_stores == artifact.resources.spill_stores);
  CHECK(read.resources.spill_loads == artifact.resources.spill_loads);
  CHECK(read.compile_seconds == artifact.compile_seconds);
}

}  // namespace

TEST_CASE("entry format: an entry reads back, on a hit without its log and sources") {
  const Artifact artifact = example_artifact();
  const auto file = entry_of(artifact);
  CHECK(file == entry_of(artifact));

  const auto hit = decode_example(file);
  REQUIRE_MESSAGE(hit, (hit ? "" : hit.error().text()));
  check_equal(*hit, artifact);
  CHECK(hit->binary == artifact.binary);
  CHECK(hit->log.empty());
  CHECK(hit->request.sources.empty());

  const auto all = decode_entry(file);
  REQUIRE_MESSAGE(all, (all ? "" : all.error().text()));
  check_equal(*all, artifact);
  CHECK(all->binary == artifact.binary);
  CHECK(all->log == artifact.log);
  CHECK(all->request.sources == artifact.request.sources);
}

TEST_CASE("entry format: plans of many tiles, and no binary") {
  Artifact artifact = example_artifact();
  artifact.request.kind = ArtifactKind::plans;
  artifact.request.entry.clear();
  artifact.request.tiles = {Tile{"mma", 64, 32, 2, 8}, Tile{"portable", 16, 16, 1, 4}};
  artifact.plans = {Plan{.version = 1, .threads = 256, .cluster = 2}, Plan{}};
  artifact.binary.clear();
  artifact.log.clear();
  artifact.key = entry_key(artifact.request, artifact.compiler);
  const auto file = entry_of(artifact);
  const auto read = decode_entry_for(file, {artifact.key, artifact.request, artifact.compiler});
  REQUIRE(read);
  check_equal(*read, artifact);
  CHECK(read->binary.empty());
}

TEST_CASE("entry format: the golden entry of version 1 is read") {
  // Written by tests/cases/entry_v1.py, which shares no code with the library.
  const std::string golden = read_file(std::filesystem::path(KERNWRIGHT_TEST_CASES) / "entry_v1.kwe");
  REQUIRE(golden.size() == 2642);
  const Artifact artifact = example_artifact();
  const auto hit = decode_example(as_bytes(golden));
  REQUIRE_MESSAGE(hit, (hit ? "" : hit.error().text()));
  check_equal(*hit, artifact);
  CHECK(hit->binary == artifact.binary);
  const auto all = decode_entry(as_bytes(golden));
  REQUIRE_MESSAGE(all, (all ? "" : all.error().text()));
  CHECK(all->log == artifact.log);
  CHECK(all->request.sources == artifact.request.sources);
  // What this build writes has the same header but for the size of what zstd made.
  const auto file = entry_of(artifact);
  const auto own = read_entry_layout(file);
  const auto theirs = read_entry_layout(as_bytes(golden));
  REQUIRE(own);
  REQUIRE(theirs);
  CHECK(own->request == theirs->request);
  CHECK(own->compiler == theirs->compiler);
  CHECK(own->closure_bytes == theirs->closure_bytes);
}

TEST_CASE("entry format: every flipped byte and every truncation is refused") {
  const auto file = entry_of(example_artifact());
  REQUIRE(decode_example(file));
  for (std::size_t at = 0; at < file.size(); ++at) {
    for (const std::byte mask : {std::byte{0x01}, std::byte{0x80}, std::byte{0xff}}) {
      auto changed = file;
      changed[at] ^= mask;
      const auto read = decode_example(changed);
      REQUIRE_FALSE(read);
      CHECK(read.error().code == ErrorCode::malformed);
      REQUIRE_FALSE(decode_entry(changed));
    }
  }
  for (std::size_t length = 0; length < file.size(); ++length) {
    const std::vector<std::byte> cut(
        file.begin(), file.begin() + static_cast<std::ptrdiff_t>(length));  // its own block, so that a sanitizer sees overruns
    REQUIRE_FALSE(decode_example(cut));
    REQUIRE_FALSE(decode_entry(cut));
  }
  auto longer = file;
  longer.push_back(std::byte{0});
  CHECK_FALSE(decode_example(longer));
}

TEST_CASE("entry format: behind a right checksum nothing is believed either") {
  const Artifact artifact = example_artifact();
  const auto file = entry_of(artifact);
  const auto layout = read_entry_layout(file);
  REQUIRE(layout);
  const std::size_t closure_at = static_cast<std::size_t>(layout->closure.data() - reinterpret_cast<const char*>(file.data()));
  for (std::size_t at = 0; at < file.size(); ++at) {
    for (const std::byte mask : {std::byte{0x01}, std::byte{0x80}, std::byte{0xff}}) {
      auto changed = file;
      changed[at] ^= mask;
      repair_entry_checksum(changed);
      const auto all = decode_entry(changed);
      if (at < 16) REQUIRE_FALSE(all);  // magic, version, header length
      // The key tells a changed key, request, compiler or source; the rest of the header, the binary and the log have the checksum alone.
      if (all) {
        CHECK(all->key == artifact.key);
        CHECK(entry_key(all->request, all->compiler) == artifact.key);
        if (at >= closure_at) CHECK(all->request.sources == artifact.request.sources);
      }
      if (const auto hit = decode_example(changed)) CHECK(hit->key == artifact.key);
    }
  }
  // A checksum that was made right over a cut file.
  for (std::size_t length = kEntryPrefixBytes; length < file.size(); ++length) {
    std::vector<std::byte> cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(length));
    repair_entry_checksum(cut);
    REQUIRE_FALSE(decode_example(cut));
  }
}

TEST_CASE("entry format: another entry's fields are named") {
  const Artifact artifact = example_artifact();
  const auto file = entry_of(artifact);
  const auto problem_for = [&](auto change) {
    BuildRequest request = example_request();
    CompilerIdentity compiler = example_compiler();
    change(request, compiler);
    // The key of what the file holds: as if two requests had the same key.
    const auto read = decode_entry_for(file, {artifact.key, request, compiler});
    REQUIRE_FALSE(read);
    return read.error().message;
  };
  CHECK(holds(problem_for([](auto& r, auto&) { r.target = *Target::parse("sm_90"); }), "target is 'sm_90a', asked for was 'sm_90'"));
  CHECK(holds(problem_for([](auto& r, auto&) { r.template_name = "demo/other"; }), "template is 'demo/scale'"));
  CHECK(holds(problem_for([](auto& r, auto&) { r.entry = "other"; }), "entry is 'scale'"));
  CHECK(holds(problem_for([](auto& r, auto&) { r.specialisation.set("heads", 16); }), "specialisation is 'heads=8 dtype=bf16'"));
  CHECK(holds(problem_for([](auto& r, auto&) { r.tiles[0].stages = 1; }), "tiles is 'mma:m64n32s2w8'"));
  CHECK(holds(problem_for([](auto& r, auto&) { r.options.pop_back(); }), "options differ"));
  CHECK(holds(problem_for([](auto& r, auto&) { r.sources[1].content += ' '; }), "content of 'demo/scale_plan.cuh' differs"));
  CHECK(holds(problem_for([](auto& r, auto&) { r.sources[1].name += 'x'; }), "a source's name is 'demo/scale_plan.cuh'"));
  CHECK(holds(problem_for([](auto& r, auto&) { r.sources.pop_back(); }), "number of sources differs"));
  CHECK(holds(problem_for([](auto& r, auto&) { r.kind = ArtifactKind::plans; }), "plan table"));
  CHECK(holds(problem_for([](auto&, auto& c) { c.components[0].second = "x"; }), "another compiler"));

  EntryKey other = artifact.key;
  other.bytes[0] ^= std::byte{1};
  const auto read = decode_entry_for(file, {other, artifact.request, artifact.compiler});
  REQUIRE_FALSE(read);
  CHECK(holds(read.error().message, "another key, " + artifact.key.hex()));
}

TEST_CASE("entry format: a version of the future says so") {
  auto file = entry_of(example_artifact());
  file[8] = std::byte{2};
  const auto read = decode_example(file);
  REQUIRE_FALSE(read);
  CHECK(holds(read.error().message, "format version is 2, this build reads 1"));
}

TEST_CASE("entry format: what is no entry is not written") {
  Artifact artifact = example_artifact();
  artifact.plans.clear();
  CHECK(encode_entry(artifact).error().code == ErrorCode::invalid_argument);
  artifact = example_artifact();
  artifact.compile_seconds = -1;
  CHECK(encode_entry(artifact).error().code == ErrorCode::invalid_argument);
}
