// kernwright cache ls
#include <algorithm>
#include <map>
#include <sstream>

#include "store/compiler_record.hpp"
#include "unit/tools/example_store.hpp"
#include "unit/tools/program.hpp"

using namespace kernwright;
using namespace kernwright::tests;
using Json = nlohmann::json;

namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kHour = 3600;

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string line_with(const std::string& text, std::string_view part) {
  for (const std::string& line : lines_of(text)) {
    if (contains(line, part)) return line;
  }
  FAIL(text);
  return {};
}

const Json& by_key(const Json& list, const std::string& key) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const Json& each) { return each["key"] == key; });
  REQUIRE(found != list.end());
  return *found;
}

}  // namespace

TEST_CASE("cache ls: JSON has every number as it was written") {
  const TemporaryFolder folder;
  ExampleStore example(folder.path() / "store");
  const Artifact artifact = example_artifact(), plans = example_plans();
  const fs::path file = example.add(artifact, 5 * kHour, 2 * kHour);
  example.add(plans);
  example.add_fit();
  const ChildResult result = kernwright_program({"cache", "ls", "--json"}, in_store(example.path()));
  CHECK_MESSAGE(result.exit_code == 0, result.err);
  CHECK(result.err.empty());
  const Json json = json_of(result);
  const std::int64_t now = Clock::system()->unix_seconds();
  CHECK(std::abs(json["now"].get<std::int64_t>() - now) < 100);
  CHECK(json["bad"] == 0);
  REQUIRE(json["stores"].size() == 1);
  CHECK(json["stores"][0]["folder"] == example.path().string());
  CHECK(json["stores"][0]["access"] == "writable");
  CHECK(json["stores"][0]["exists"] == true);
  CHECK(json["stores"][0]["problem"].is_null());
  CHECK(json["stores"][0]["entries"] == 2);
  CHECK(json["stores"][0]["fits"] == 1);
  CHECK(json["stores"][0]["limit"] == 1U << 30);
  CHECK(json["entries"].size() == 2);

  const Json& entry = by_key(json["entries"], artifact.key.hex());
  CHECK(entry["store"] == example.path().string());
  CHECK(entry["size"] == fs::file_size(file));
  CHECK(entry["allocated"] >= fs::file_size(file));
  CHECK(entry["binary_size"] == 1000);
  CHECK(std::abs(now - entry["modified"].get<std::int64_t>() - 5 * kHour) < 100);
  CHECK(std::abs(now - entry["used"].get<std::int64_t>() - 2 * kHour) < 100);
  CHECK(entry["kind"] == "kernel");
  CHECK(entry["template"] == "demo/scale");
  CHECK(entry["specialisation"] == "heads=8 dtype=bf16");
  CHECK(entry["tile"] == "mma:m64n32s2w8");
  CHECK(entry["target"] == "sm_90a");
  CHECK(entry["compile_ms"] == 125.0);
  CHECK(entry["threads"] == 256);
  CHECK(entry["dynamic_shared"] == 73728);
  CHECK(entry["resources"] ==
        Json{{"registers", 96}, {"static_shared", 1024}, {"stack_frame", 16}, {"spill_stores", 4}, {"spill_loads", 8}});
  CHECK(entry["compiler"] ==
        Json{{"name", "nvrtc"}, {"version", "13.0"}, {"components", {{"libnvrtc", "0123abcd"}, {"libnvrtc-builtins", "feedbeef"}}}});
  const Json& other = by_key(json["entries"], plans.key.hex());
  CHECK(other["kind"] == "plans");
  CHECK(other["binary_size"] == 0);
  CHECK_FALSE(other.contains("tile"));
  CHECK_FALSE(other.contains("resources"));

  REQUIRE(json["fits"].size() == 1);
  CHECK(json["fits"][0]["key"] == example_fit_key().hex());
  CHECK(json["fits"][0]["tile_asked"] == "mma:m128n64s3w8");
  CHECK(json["fits"][0]["tile_fitted"] == "mma:m64n32s2w8");
  CHECK(json["fits"][0]["device"] == "NVIDIA \"H200\"");
  REQUIRE(json["compilers"].size() == 1);
  CHECK(json["compilers"][0]["record"] == compiler_record_name(artifact.compiler));
  CHECK(json["compilers"][0]["entries"] == 2);
}

TEST_CASE("cache ls: people read a table of aligned columns, with totals, fits and compilers below it") {
  const TemporaryFolder folder;
  ExampleStore example(folder.path() / "store");
  const Artifact artifact = example_artifact();
  Artifact wide = example_artifact_with(128, 300'000);
  wide.request.tiles = {Tile{"a_variant_of_a_very_long_name", 128, 128, 16, 16}};
  wide.key = entry_key(wide.request, wide.compiler);
  wide.resources.spill_stores = {10'240};
  wide.compile_seconds = 12.5;
  Artifact clean = example_artifact_with(16, 100);
  clean.resources.spill_stores = clean.resources.spill_loads = {};
  // Half an hour above whole ones, so that the age does not change while the test runs.
  example.add(artifact, 5 * kHour + 1800, 2 * kHour + 1800);
  example.add(wide, 80 * 24 * kHour + 1800);
  example.add(clean, 90);
  const Artifact plans = example_plans();
  example.add(plans, 90);
  example.add_fit();
  const ChildResult result = kernwright_program({"cache", "ls"}, in_store(example.path()));
  CHECK(result.exit_code == 0);
  const std::string& text = result.out;
  const std::string head = line_with(text, "key ");
  const std::string row = line_with(text, artifact.key.hex());
  for (const std::string& part : {std::string("mma:m64n32s2w8"), std::string("5 h"), std::string("2 h"), std::string("96"),
                                  std::string("73 KiB"), std::string("12 B"), std::string("125 ms")}) {
    CHECK_CONTAINS(row, part);
  }
  CHECK_CONTAINS(line_with(text, wide.key.hex()), "a_variant_of_a_very_long_name:m128n128s16w16");
  CHECK_CONTAINS(line_with(text, wide.key.hex()), "80 d");
  CHECK_CONTAINS(line_with(text, wide.key.hex()), "10 KiB");
  CHECK_CONTAINS(line_with(text, plans.key.hex()), "plans of 2 tiles");
  // Every row ends where the titles end, the last column being set to the right; and columns begin where their titles do.
  for (const Artifact& each : {artifact, wide, clean, plans}) {
    const std::string line = line_with(text, each.key.hex());
    CHECK(line.size() == head.size());
    CHECK(line.find(each.key.hex()) == head.find("key"));
    CHECK(line[head.find("tile")] != ' ');
    CHECK(line[head.find("tile") - 1] == ' ');
    CHECK(line[head.find("size") + 3] == 'B');
  }
  CHECK(line_with(text, clean.key.hex()).find(" - ") != std::string::npos);
  CHECK_CONTAINS(text, "store " + example.path().string() + " (writable)\n");
  CHECK_CONTAINS(text, "\ndemo/scale  heads=8 dtype=bf16  sm_90a\n");
  CHECK_CONTAINS(text, "4 entries, ");
  CHECK_CONTAINS(text, "(limit 1 GiB); 1 fit; 1 compiler\n");
  CHECK_CONTAINS(text, "fit " + example_fit_key().hex() + "  demo/scale  heads=8 dtype=bf16  sm_90a on NVIDIA \"H200\"\n");
  CHECK_CONTAINS(text, "  mma:m128n64s3w8 asked, mma:m64n32s2w8 fitted: needs 300000 bytes");
  CHECK_CONTAINS(text, "compiler nvrtc 13.0 (" + compiler_record_name(artifact.compiler).substr(0, 8) + "): 4 entries\n");
}

TEST_CASE("cache ls: tables of our own kernels are at most 120 columns wide") {
  const TemporaryFolder folder;
  ExampleStore example(folder.path() / "store");
  Artifact artifact = example_artifact_with(128, 500'000);
  artifact.request.template_name = "sparse_mla/prefill";
  artifact.request.specialisation = Specialisation().set("heads", 128).set("group_size", 16).set("d_qk", 576).set("dtype", DType::bf16);
  artifact.request.tiles = {Tile{"portable", 128, 128, 10, 16}};
  artifact.key = entry_key(artifact.request, artifact.compiler);
  artifact.plans[0].dynamic_shared = 232'448;
  artifact.resources = {.registers = 255, .static_shared = {}, .stack_frame = {}, .spill_stores = {1012}, .spill_loads = {1012}};
  artifact.compile_seconds = 12.25;
  example.add(artifact, 100 * 24 * kHour);
  for (const std::string& line : lines_of(kernwright_program({"cache", "ls"}, in_store(example.path())).out)) {
    if (!line.starts_with("store ")) CHECK_MESSAGE(line.size() <= 120, line);
  }
}

TEST_CASE("cache ls: stores are listed in the order in which a run asks them, each entry with its own") {
  const TemporaryFolder folder;
  ExampleStore second(folder.path() / "second"), first(folder.path() / "first"), writable(folder.path() / "writable");
  first.add(example_artifact());
  second.add(example_artifact());
  second.add(example_artifact_with(16, 100));
  ChildOptions options = in_store(writable.path());
  options.environment["KERNWRIGHT_CACHE_STORES"] = first.path().string() + ":" + second.path().string();
  const Json json = json_of(kernwright_program({"cache", "ls", "--json"}, options));
  REQUIRE(json["stores"].size() == 3);
  CHECK(json["stores"][0]["folder"] == first.path().string());
  CHECK(json["stores"][0]["access"] == "read-only");
  CHECK(json["stores"][0]["limit"].is_null());
  CHECK(json["stores"][1]["folder"] == second.path().string());
  CHECK(json["stores"][2]["folder"] == writable.path().string());
  CHECK(json["stores"][2]["access"] == "writable");
  CHECK(json["stores"][2]["exists"] == false);
  std::map<std::string, int> count;
  for (const Json& entry : json["entries"]) ++count[entry["store"]];
  CHECK(count == std::map<std::string, int>{{first.path().string(), 1}, {second.path().string(), 2}});
  CHECK(json["entries"][0]["store"] == first.path().string());
  CHECK_FALSE(fs::exists(writable.path()));

  const std::string text = kernwright_program({"cache", "ls"}, options).out;
  const std::size_t at = text.find("store " + second.path().string() + " (read-only)\n");
  CHECK(text.find("store " + first.path().string() + " (read-only)\n") < at);
  CHECK(at < text.find("store " + writable.path().string() + " (writable): not there yet"));

  // One alone.
  const Json alone = json_of(kernwright_program({"cache", "ls", "--json", "--store", second.path().string()}, options));
  CHECK(alone["stores"].size() == 1);
  CHECK(alone["entries"].size() == 2);
  check_refused({"cache", "ls", "--store", (folder.path() / "none").string()}, {"--store", "there is nothing of that name"}, options);
  write_file(folder.path() / "file", "");
  check_refused({"cache", "ls", "--store", (folder.path() / "file").string()}, {"--store", "no folder"}, options);
}

TEST_CASE("cache ls: --template and --target let through what they name, bad entries are always listed, with the reason") {
  const TemporaryFolder folder;
  ExampleStore example(folder.path() / "store");
  Artifact other = example_artifact();
  other.request.template_name = "demo_two/scale";
  other.request.target = *Target::parse("sm_80");
  other.key = entry_key(other.request, other.compiler);
  example.add(example_artifact());
  example.add(other);
  example.add_fit();
  const Artifact bad = example_artifact_with(16, 100);
  write_file(example.add(bad), "short");
  const auto keys = [&](const std::vector<std::string>& filters, std::size_t fits) {
    std::vector<std::string> words{"cache", "ls", "--json"};
    words.insert(words.end(), filters.begin(), filters.end());
    const Json json = json_of(kernwright_program(words, in_store(example.path())));
    CHECK(json["fits"].size() == fits);
    CHECK(json["bad"] == 1);
    std::vector<std::string> found;
    for (const Json& entry : json["entries"]) {
      if (!entry.contains("problem")) found.push_back(entry["template"]);
    }
    return found;
  };
  using Names = std::vector<std::string>;
  CHECK(keys({}, 1).size() == 2);
  CHECK(keys({"--template", "demo/scale"}, 1) == Names{"demo/scale"});
  CHECK(keys({"--template", "demo"}, 1) == Names{"demo/scale"});
  CHECK(keys({"--template", "demo_two"}, 0) == Names{"demo_two/scale"});
  CHECK(keys({"--template", "scale"}, 0).empty());
  CHECK(keys({"--target", "sm_80"}, 0) == Names{"demo_two/scale"});
  CHECK(keys({"--target", "sm_90a", "--template", "demo"}, 1) == Names{"demo/scale"});
  CHECK(keys({"--target", "sm_90a", "--template", "demo_two"}, 0).empty());
  check_refused({"cache", "ls", "--target", "gpu"}, {"--target gpu"}, in_store(example.path()));
  const ChildResult text = kernwright_program({"cache", "ls"}, in_store(example.path()));
  CHECK(text.exit_code == 0);
  CHECK_CONTAINS(text.out, "BAD " + bad.key.hex() + "  5 B  it has 5 bytes, fewer than the 32");
  CHECK_CONTAINS(text.out, "3 entries, ");
  CHECK_CONTAINS(text.out, ", 1 bad; ");
}

TEST_CASE("cache ls: what an entry's maker wrote cannot steer the terminal") {
  const TemporaryFolder folder;
  ExampleStore example(folder.path() / "store");
  Artifact hostile = example_artifact();
  hostile.request.template_name = "demo/\x1b[2Jscale\nBAD";
  hostile.key = entry_key(hostile.request, hostile.compiler);
  example.add(hostile);
  const std::string text = kernwright_program({"cache", "ls"}, in_store(example.path())).out;
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK_CONTAINS(text, "demo/?[2Jscale?BAD");
  CHECK(kernwright_program({"cache", "show", hostile.key.hex()}, in_store(example.path())).out.find('\x1b') == std::string::npos);
}

TEST_CASE("cache ls: a store that cannot be read is said, and the others are listed") {
  const TemporaryFolder folder;
  ExampleStore good(folder.path() / "good");
  good.add(example_artifact());
  write_file(folder.path() / "broken" / "entries", "a file in a folder's place");
  ChildOptions options = in_store(good.path());
  options.environment["KERNWRIGHT_CACHE_STORES"] = (folder.path() / "broken").string();
  const ChildResult result = kernwright_program({"cache", "ls", "--json"}, options);
  CHECK(result.exit_code == 3);
  const Json json = json_of(result);
  CHECK_CONTAINS(json["stores"][0]["problem"].get<std::string>(), "entries");
  CHECK(json["entries"].size() == 1);
  CHECK_CONTAINS(kernwright_program({"cache", "ls"}, options).out, "broken (read-only): cannot be read: ");
}
