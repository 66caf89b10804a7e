// kernwright tune as a program, on the interpreter, with tiles that were made to misbehave.
#include <doctest/doctest.h>
#include <algorithm>
#include <sstream>

#include "fixtures/temporary_folder.hpp"
#include "kernwright/sparse_mla_prefill.hpp"
#include "unit/tools/planted_tiles.hpp"
#include "unit/tools/program.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

const PlantedFamily kPrefill{"sparse_mla", "prefill_portable.cu", "prefill.toml", "  if (params.tokens == 0) return;\n"};

std::filesystem::path planted_templates(const std::filesystem::path& folder, const std::string& block_n, const std::string& standing) {
  return planted_templates(folder, kPrefill, misbehaving(15'000'000),
                           "block_m = [16, 64]\nblock_n = [" + block_n + "]\nstages = [1]\nwarps = [4]\n", standing);
}

/// With this seed n64 is measured right behind n16, in the same process: what that one wrote must not pass for its output.
std::vector<std::string> tune_words(const std::filesystem::path& templates, const std::filesystem::path& table) {
  return {"tune", "sparse-mla",    "--target", "host",           "--heads", "2",           "--union",          "0",       "--topk",
          "6",    "--shapes",      "1x9",      "--churn",        "0.3",     "--out",       table.string(),     "--quiet", "--rounds",
          "2",    "--repetitions", "2",        "--hang-seconds", "3",       "--templates", templates.string(), "--seed",  "11"};
}

}  // namespace

TEST_CASE(
    "tune: slow, wrong, faulting, hanging and uncompilable tiles are told apart, and a run that was killed ends as an undisturbed one") {
  const TemporaryFolder folder;
  const auto templates = planted_templates(folder.path(), "16, 32, 48, 64, 80, 96, 512", "portable:m16n16s1w4");
  const auto table = folder.path() / "table.toml";
  const auto words = tune_words(templates, table);
  const ChildResult undisturbed = kernwright_program(words + std::vector<std::string>{"--json"});
  REQUIRE_MESSAGE(undisturbed.exit_code == 0, undisturbed.err);
  const Json json = json_of(undisturbed);
  const Json& subject = json["subjects"][0];
  CHECK(subject["offered"] == 14);
  CHECK(subject["illegal"] == 7);
  CHECK(subject["over_limits"] == 1);
  CHECK(subject["points"] == 6);
  CHECK(subject["outcomes"] == Json{{"measured", 2}, {"wrong", 1}, {"not_built", 1}, {"faulted", 1}, {"hung", 1}});
  CHECK(subject["default"] == "portable:m16n16s1w4");
  CHECK(subject["tile"] == "portable:m16n32s1w4");
  CHECK(json["worker_starts"] == 3);  // anew after the fault and after the hang alone
  for (const Json& each : subject["search"]) {
    const std::string tile = each["tile"];
    const std::string reason = each["reason"].is_null() ? "" : each["reason"];
    if (tile == "portable:m16n48s1w4") CHECK_CONTAINS(reason, "its process ");  // ended by SIGILL, or by a sanitizer for it
    if (tile == "portable:m16n64s1w4") CHECK_CONTAINS(reason, "1x9 churn 0.3");
    if (tile == "portable:m16n80s1w4") CHECK_CONTAINS(reason, "static assertion");
    if (tile == "portable:m16n96s1w4") CHECK_CONTAINS(reason, "nothing was heard of it for 3 s");
  }
  const std::string written = read_file(table);
  for (const std::string_view part : {"template = \"sparse_mla/prefill\"", "tile = \"portable:m16n32s1w4\"",
                                      "default = \"portable:m16n16s1w4\"", "target = \"host\"", "shapes = [\"1x9 churn 0.3\"]"}) {
    CHECK_CONTAINS(written, part);
  }

  {
    INFO("a finished run, asked for again, measures nothing and writes the same bytes");
    const ChildResult again = kernwright_program(words);
    REQUIRE_MESSAGE(again.exit_code == 0, again.err);
    CHECK(read_file(table) == written);
    CHECK_CONTAINS(again.out, "measured  0, ");
    CHECK_CONTAINS(again.out, "table written");
    std::istringstream lines(again.out);
    for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(line.size() <= 100, line);
    check_refused(words + std::vector<std::string>{"--strategy", "random"},
                  {"table.toml.journal.jsonl is of another run (strategy: here \"random\", in the journal \"exhaustive\")"});
  }

  a_killed_run_goes_on([&](const std::filesystem::path& other) { return tune_words(templates, other); }, folder.path() / "other.toml",
                       written);

  {
    INFO("prepare reads the table for the sources that it was measured with, and passes it over for others");
    std::filesystem::create_directory(folder.path() / "tables");
    std::filesystem::copy(table, folder.path() / "tables" / "table.toml");
    std::string said;
    RuntimeOptions options;
    options.store = program_store();
    options.tuning_folder = folder.path() / "tables";
    options.log = [&](LogLevel, std::string_view line) { said += line; };
    SparseMlaPrefillOptions op;
    op.device = DeviceId::host();
    op.heads = 2;
    op.group_size = 0;
    const auto tile_of = [&] {
      const auto runtime = Runtime::create(options);
      REQUIRE(runtime);
      const auto made = SparseMlaPrefill::create(*runtime, op);
      REQUIRE_MESSAGE(made, (made ? "" : made.error().text()));
      return made->reports().back().tile_asked.text();
    };
    options.template_folder = templates;
    CHECK(tile_of() == "portable:m16n32s1w4");
    CHECK_MESSAGE(said.empty(), said);
    options.template_folder.reset();
    CHECK(tile_of() != "portable:m16n32s1w4");
    CHECK_CONTAINS(said, "holds for other sources");
  }
}

TEST_CASE("tune: where every tile fails no table is written, and the reasons are said") {
  const TemporaryFolder folder;
  const auto table = folder.path() / "table.toml";
  const auto templates = planted_templates(folder.path(), "64", "portable:m16n64s1w4");
  const ChildResult failed = kernwright_program(tune_words(templates, table));
  CHECK(failed.exit_code == 1);
  CHECK_CONTAINS(failed.out, "no table was written");
  CHECK_CONTAINS(failed.out, "1 wrong (portable:m16n64s1w4: 1x9 churn 0.3: ");
  CHECK_FALSE(std::filesystem::exists(table));
}

TEST_CASE("tune: words that are off, and a table or journal that cannot be written, are noticed before the work") {
  const TemporaryFolder folder;
  const auto table = folder.path() / "table.toml";
  const std::vector<std::string> words{"tune", "sparse-mla", "--target", "host", "--heads", "2", "--quiet"};
  const auto with_table = words + std::vector<std::string>{"--out", table.string()};
  check_refused(with_table + std::vector<std::string>{"--strategy", "greedy"},
                {"--strategy greedy: legal are exhaustive, random, descent"});
  check_refused(with_table + std::vector<std::string>{"--union", "auto"}, {"--union auto: legal are 0 (off), 2, 4, 8, 16"});
  check_refused(with_table + std::vector<std::string>{"--shapes", "9"}, {"--shapes 9"});
  check_error(3, words + std::vector<std::string>{"--union", "0", "--out", "/no/such/folder/table.toml"}, {"--out", "/no/such/folder"},
              in_store());
  check_error(3, words + std::vector<std::string>{"--union", "0", "--out", folder.path().string()}, {"--out", "no file"}, in_store());
  check_error(3, with_table + std::vector<std::string>{"--union", "0", "--journal", "/no/such/folder/j"},
              {"/no/such/folder/j", "--journal"}, in_store());
  {
    INFO("a folder that is not there is named, and no file that nobody asked for");
    const std::string missing = (folder.path() / "missing").string(),
                      what = "there is no folder '" + missing + "'; make it first (mkdir -p '";
    const auto off = words + std::vector<std::string>{"--union", "0"};
    for (const auto& [option, more] : {std::pair<std::string, std::vector<std::string>>{"--out", {}},
                                       {"--journal", {"--out", table.string()}},
                                       {"--report", {"--out", table.string()}}}) {
      const ChildResult result = kernwright_program(off + std::vector<std::string>{option, missing + "/f"} + more, in_store());
      CHECK(result.exit_code == 3);
      CHECK_CONTAINS(result.err, "kernwright: error: io: " + option + " " + missing + "/f: " + what);
      CHECK_FALSE(contains(result.err, "probe"));
    }
    // As on a disk with room for a small file only.
    for (const std::string option : {"--out", "--report"}) {
      const std::string output = (folder.path() / "large").string();
      std::vector<std::string> limited{"-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"", KERNWRIGHT_PROGRAM};
      limited = limited + off + std::vector<std::string>{option, output, "--journal", (folder.path() / "journal").string()};
      const ChildResult result = run_child("/bin/sh", limited, in_store());
      CHECK(result.exit_code == 3);
      CHECK_CONTAINS(result.err, "kernwright: error: io: " + option + " " + output + ": no file can be made");
      CHECK_FALSE(std::filesystem::exists(folder.path() / "journal"));
    }
    const std::string same = table.string();
    check_refused(off + std::vector<std::string>{"--out", same, "--journal", same}, {"--out and --journal are one file"});
    check_refused(off + std::vector<std::string>{"--out", same, "--report", (folder.path() / "." / "table.toml").string()},
                  {"--out and --report are one file"});
    check_refused(off + std::vector<std::string>{"--out", same, "--report", same + ".journal.jsonl"},
                  {"--journal and --report are one file"});
    write_file(folder.path() / "file", "");
    check_error(3, off + std::vector<std::string>{"--out", (folder.path() / "file" / "t.toml").string()}, {"file' is no folder"},
                in_store());
  }
  CHECK_FALSE(std::filesystem::exists(table));
}

TEST_CASE("tune: --devices shares the specialisations out, a worker a device, and says that clocks were not watched") {
  const TemporaryFolder folder;
  ChildOptions options = in_store();
  options.environment["KERNWRIGHT_CUDA_DRIVER"] = KERNWRIGHT_FAKE_CUDA;  // runs nothing: no tile can win
  options.environment["KERNWRIGHT_FAKE_CUDA_DEVICES"] = "2";
  const auto table = folder.path() / "table.toml";
  std::vector<std::string> words{"tune",     "sparse-mla", "--devices",  "0,1",      "--heads", "2",     "--union",
                                 "0,4",      "--topk",     "6",          "--shapes", "1x9",     "--out", table.string(),
                                 "--budget", "2",          "--strategy", "random",   "--quiet", "--json"};
  const ChildResult result = kernwright_program(words, options);
  if (contains(result.err, "compiler_unavailable")) return;  // no NVRTC here
  CHECK_MESSAGE(result.exit_code == 1, result.err);
  const Json json = json_of(result);
  CHECK(json["worker_starts"] == 2);
  REQUIRE(json["subjects"].size() == 2);
  for (const Json& subject : json["subjects"]) {
    CHECK(subject["search"].size() == 2);
    CHECK_FALSE(subject["outcomes"].contains("measured"));
  }
  CHECK(json["clocks"].get<std::string>().starts_with("not watched: libnvidia-ml.so.1"));
  CHECK(lines_of(table.string() + ".journal.jsonl") == 1 + 4);
  words[3] = "0,2";
  check_refused(words, {"--devices", "cuda:2"}, options);
}
