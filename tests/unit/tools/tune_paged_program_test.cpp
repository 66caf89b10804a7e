// kernwright tune paged-mla as a program, on the interpreter, with tiles that were made to misbehave.
#include <doctest/doctest.h>
#include <algorithm>
#include <sstream>

#include "fixtures/temporary_folder.hpp"
#include "kernwright/paged_mla_decode.hpp"
#include "unit/tools/planted_tiles.hpp"
#include "unit/tools/program.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

const PlantedFamily kDecode{"paged_mla", "decode_portable.cu", "decode.toml", "  if (params.sequences.batch == 0) return;\n"};

/// With this seed n64 is measured right behind n16, in the same process: what that one wrote must not pass for its output.
std::vector<std::string> tune_words(const std::filesystem::path& templates, const std::filesystem::path& table) {
  return {"tune", "paged-mla",      "--target", "host",        "--heads",          "2",       "--s-q",    "1", "--page-size",
          "4",    "--shapes",       "2x9",      "--out",       table.string(),     "--quiet", "--rounds", "2", "--repetitions",
          "2",    "--hang-seconds", "5",        "--templates", templates.string(), "--seed",  "11"};
}

PagedMlaDecodeOptions decode_options() {
  PagedMlaDecodeOptions options;
  options.device = DeviceId::host();
  options.heads = 2;
  options.page_size = 4;
  return options;
}

}  // namespace

TEST_CASE(
    "tune paged-mla: slow, wrong, faulting, hanging and uncompilable tiles are told apart, a killed run goes on, and prepare reads the "
    "row") {
  const TemporaryFolder folder;
  const auto templates =
      planted_templates(folder.path(), kDecode, misbehaving(60'000'000),
                        "block_m = [16, 64]\nblock_n = [16, 32, 48, 64, 80, 96, 512]\nstages = [1]\nwarps = [4]\n", "portable:m16n16s1w4");
  const auto table = folder.path() / "table.toml";
  const auto words = tune_words(templates, table);
  const ChildResult undisturbed = kernwright_program(words + std::vector<std::string>{"--json"});
  REQUIRE_MESSAGE(undisturbed.exit_code == 0, undisturbed.err);
  const Json json = json_of(undisturbed);
  CHECK(json["family"] == "paged-mla");
  REQUIRE(json["subjects"].size() == 1);
  CHECK(json["parameters"].empty());
  const Json& subject = json["subjects"][0];
  CHECK(subject["template"] == "paged_mla/decode");
  CHECK(subject["specialisation"] == "heads=2 query_tokens=1 page_size=4 d_qk=576 dtype=bf16");
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
    if (tile == "portable:m16n48s1w4") CHECK_CONTAINS(reason, "its process ");
    if (tile == "portable:m16n64s1w4") CHECK_CONTAINS(reason, "2x9: ");
    if (tile == "portable:m16n80s1w4") CHECK_CONTAINS(reason, "static assertion");
    if (tile == "portable:m16n96s1w4") CHECK_CONTAINS(reason, "nothing was heard of it for 5 s");
    if (each["outcome"] == "measured") CHECK(each["shapes"][0]["samples_ms"].size() == 2);
  }
  const std::string written = read_file(table);
  for (const std::string_view part :
       {"template = \"paged_mla/decode\"", "when = { heads = 2, query_tokens = 1, page_size = 4, d_qk = 576, dtype = \"bf16\" }",
        "tile = \"portable:m16n32s1w4\"", "default = \"portable:m16n16s1w4\"", "target = \"host\"", "shapes = [\"2x9\"]"}) {
    CHECK_CONTAINS(written, part);
  }

  {
    INFO("a finished run, asked for again, measures nothing and writes the same bytes; other words are another run");
    const ChildResult again = kernwright_program(words);
    REQUIRE_MESSAGE(again.exit_code == 0, again.err);
    CHECK(read_file(table) == written);
    CHECK_CONTAINS(again.out, "measured  0, ");
    std::istringstream lines(again.out);
    for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(line.size() <= 100, line);
    auto others = words;
    *(std::ranges::find(others, "2x9")) = "2x8";
    check_refused(others, {"table.toml.journal.jsonl is of another run (shapes: here [\"2x8\"], in the journal [\"2x9\"])"});
  }

  a_killed_run_goes_on([&](const std::filesystem::path& other) { return tune_words(templates, other); }, folder.path() / "other.toml",
                       written);

  {
    INFO("prepare reads the row for the sources that it was measured with");
    std::filesystem::create_directory(folder.path() / "tables");
    std::filesystem::copy(table, folder.path() / "tables" / "table.toml");
    RuntimeOptions options;
    options.store = program_store();
    options.template_folder = templates;
    const auto tile_of = [&] {
      const auto runtime = Runtime::create(options);
      REQUIRE(runtime);
      const auto made = PagedMlaDecode::create(*runtime, decode_options());
      REQUIRE_MESSAGE(made, (made ? "" : made.error().text()));
      return made->reports().front().tile_fitted.text();
    };
    CHECK(tile_of() == "portable:m16n16s1w4");
    options.tuning_folder = folder.path() / "tables";
    CHECK(tile_of() == "portable:m16n32s1w4");
  }
}

TEST_CASE("tune paged-mla: what an earlier tile left in outputs and workspace does not pass for a tile's own") {
  const TemporaryFolder folder;
  // With one block a multiprocessor both tiles split the request in the same places. The one of 8 warps writes nothing for the batch whose
  // request begins in page 1: the batch that the other one's last timed run was of, and the first that is looked at.
  const auto templates = planted_templates(folder.path(), kDecode, "  if (kw::tile.warps == 8 && params.block_table[0] == 1) return;\n",
                                           "block_m = [16]\nblock_n = [16]\nstages = [1]\nwarps = [4, 8]\n", "portable:m16n16s1w4");
  const auto plan = templates / "paged_mla" / "decode_plan.cuh";
  std::string text = read_file(plan);
  const std::string resident = "constexpr int threads = 384;";
  REQUIRE(contains(text, resident));
  write_file(plan, text.replace(text.find(resident), resident.size(), "constexpr int threads = 255;"));
  // Partial results stand in the workspace where the request is split; where it is not, the attention writes the output itself.
  for (const std::string shape : {"1x80", "2x9"}) {
    CAPTURE(shape);
    auto words = tune_words(templates, folder.path() / (shape + ".toml")) + std::vector<std::string>{"--json"};
    *(std::ranges::find(words, "2x9")) = shape;
    const ChildResult result = kernwright_program(words);
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    const Json subject = json_of(result)["subjects"][0];
    CHECK(subject["outcomes"] == Json{{"measured", 1}, {"wrong", 1}});
    REQUIRE(subject["search"].size() == 2);
    CHECK(subject["search"][1]["tile"] == "portable:m16n16s1w8");
    CHECK(subject["search"][1]["outcome"] == "wrong");
  }
}

TEST_CASE("tune paged-mla: a tile that is much slower than the best one is left after two runs") {
  const TemporaryFolder folder;
  const auto templates = planted_templates(folder.path(), kDecode, misbehaving(600'000'000),
                                           "block_m = [16]\nblock_n = [16, 32]\nstages = [1]\nwarps = [4]\n", "portable:m16n32s1w4");
  auto words = tune_words(templates, folder.path() / "table.toml") + std::vector<std::string>{"--json"};
  *(std::ranges::find(words, "--repetitions") + 1) = "5";
  *(std::ranges::find(words, "--hang-seconds") + 1) = "60";
  const ChildResult result = kernwright_program(words);
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  const Json subject = json_of(result)["subjects"][0];
  CHECK(subject["tile"] == "portable:m16n32s1w4");
  CHECK(subject["outcomes"] == Json{{"measured", 1}, {"hopeless", 1}});
  REQUIRE(subject["search"].size() == 2);
  const Json& left = subject["search"][1];
  CHECK(left["tile"] == "portable:m16n16s1w4");
  CHECK_CONTAINS(left["reason"].get<std::string>(), "2x9: slower than ");
  CHECK(left["shapes"][0]["samples_ms"].size() == 2);
}

TEST_CASE("tune paged-mla: words that are off, and a table that cannot be written, are noticed before the work") {
  const TemporaryFolder folder;
  const auto table = folder.path() / "table.toml";
  const std::vector<std::string> words{"tune", "paged-mla", "--target", "host", "--quiet"};
  const auto with_table = words + std::vector<std::string>{"--out", table.string()};
  for (const char* heads : {"0", "129", "8,x", "16-8", ""}) {
    check_refused(with_table + std::vector<std::string>{"--heads", heads}, {"--heads"});
  }
  for (const char* query_tokens : {"0", "9", "1,two"}) {
    check_refused(with_table + std::vector<std::string>{"--heads", "2", "--s-q", query_tokens}, {"--s-q"});
  }
  check_refused(with_table + std::vector<std::string>{"--heads", "2", "--page-size", "65"}, {"page_size", "65"});
  for (const char* shapes : {"9", "1x", "0x9", "1x9,", "8:1x9", "1x99999999999"}) {
    check_refused(with_table + std::vector<std::string>{"--heads", "2", "--shapes", shapes},
                  {"--shapes '", "legal is requests x tokens, such as 1x4096,16x32768"});
  }
  check_refused(with_table + std::vector<std::string>{"--heads", "2", "--shapes", "1x9,65536x16777216"},
                {"--shapes 65536x16777216: its pool takes", "GB", "give fewer or smaller ones"});
  check_error(3, words + std::vector<std::string>{"--heads", "2", "--out", "/no/such/folder/table.toml"}, {"--out", "/no/such/folder"},
              in_store());
  CHECK_FALSE(std::filesystem::exists(table));
}

TEST_CASE("tune paged-mla: --devices shares the specialisations out, a worker a device") {
  const TemporaryFolder folder;
  ChildOptions options = in_store();
  options.environment["KERNWRIGHT_CUDA_DRIVER"] = KERNWRIGHT_FAKE_CUDA;  // runs nothing: no tile can win
  options.environment["KERNWRIGHT_FAKE_CUDA_DEVICES"] = "2";
  const auto table = folder.path() / "table.toml";
  const ChildResult result = kernwright_program({"tune", "paged-mla", "--devices", "0,1", "--heads", "2", "--s-q", "1,2", "--shapes", "1x9",
                                                 "--out", table.string(), "--budget", "2", "--strategy", "random", "--quiet", "--json"},
                                                options);
  if (contains(result.err, "compiler_unavailable")) return;  // no NVRTC here
  CHECK_MESSAGE(result.exit_code == 1, result.err);
  const Json json = json_of(result);
  CHECK(json["worker_starts"] == 2);
  REQUIRE(json["subjects"].size() == 2);
  for (const Json& subject : json["subjects"]) {
    CHECK(subject["search"].size() == 2);
    CHECK_FALSE(subject["outcomes"].contains("measured"));
  }
  CHECK(lines_of(table.string() + ".journal.jsonl") == 1 + 4);
}
