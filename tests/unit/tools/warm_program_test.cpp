// `kernwright warm` as a child process: words, lists, progress, interruption, resuming.
#include <signal.h>

#include <algorithm>
#include <fstream>

#include "cases/scale_template.hpp"
#include "fixtures/temporary_folder.hpp"
#include "unit/tools/program.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

/// A folder of templates with test/scale in it, which NVRTC compiles in some milliseconds: with fall-backs a factor is a plan table and
/// three kernels. Its kernel refuses to compile for factor 13 and the tile of 40 KiB.
void write_scale_templates(const std::filesystem::path& folder) {
  TemplateSource source = cases::scale_template();
  write_file(folder / "test" / "scale.toml", source.manifest);
  for (TemplateSource::File& file : source.files) {
    if (file.name.ends_with(".cu")) {
      file.content += "static_assert(kw::specialisation.factor != 13 || kw::tile.block_n != 40, \"thirteen cannot have forty\");\n";
    }
    write_file(folder / file.name, file.content);
  }
}

/// A store, the templates, and a list of 12 factors: 12 plan tables and 36 kernels.
struct Workshop {
  TemporaryFolder folder;
  ChildOptions options = in_store(folder.path() / "store");

  Workshop() {
    write_scale_templates(folder.path() / "templates");
    write_list("{ from = 1, to = 12 }");
  }
  void write_list(const std::string& factors) const {
    write_file(
        folder.path() / "list.toml",
        "format = 1\ntargets = [\"sm_90a\"]\n[[launch]]\ntemplate = \"test/scale\"\nspecialisation = { factor = " + factors + " }\n");
  }
  [[nodiscard]] std::string at(const char* name) const { return (folder.path() / name).string(); }
  [[nodiscard]] ChildResult warm(const std::vector<std::string>& more = {}) const { return warm(more, options); }
  [[nodiscard]] ChildResult warm(const std::vector<std::string>& more, const ChildOptions& with) const {
    const std::vector<std::string> words{"warm", "--templates", at("templates"), "--list", at("list.toml"), "--json"};
    return run_child(KERNWRIGHT_PROGRAM, words + more, with);
  }
  [[nodiscard]] std::size_t entries() const {
    std::size_t count = 0;
    std::error_code gone;  // files come and go beneath
    for (std::filesystem::recursive_directory_iterator at(folder.path() / "store" / "entries", gone), end; !gone && at != end;
         at.increment(gone)) {
      count += at->path().extension() == ".kwe" ? 1 : 0;
    }
    return count;
  }
};

bool without_nvrtc(const ChildResult& result) {
  if (result.exit_code != 3 || !contains(result.err, "compiler_unavailable")) return false;
  MESSAGE("skipped: this machine has no NVRTC");
  return true;
}

const std::vector<std::string> kQuiet{"--quiet"};
const std::vector<std::string> kOneJob{"--jobs", "1"};

}  // namespace

TEST_CASE("command line: warm reads a launch list, and a second run hits all of it") {
  const Workshop shop;
  const ChildResult first = shop.warm();
  if (without_nvrtc(first)) return;
  REQUIRE_MESSAGE(first.exit_code == 0, first.err << first.out);
  const Json built = json_of(first);
  CHECK(built["built"] == 36);
  CHECK(built["hit"] == 0);
  CHECK(built["failed"] == 0);
  CHECK(built["skipped"] == 12);
  CHECK(built["plans"]["built"] == 12);
  CHECK(built["items"].size() == 48);
  CHECK(built["items"][0]["status"] == "skipped");
  CHECK_CONTAINS(built["items"][0]["detail"].get<std::string>(), "sm_90a offers 232448");
  CHECK(built["list"] == "launch list " + shop.at("list.toml"));
  CHECK(built["store"] == shop.at("store"));
  CHECK(built["interrupted"] == false);
  CHECK(built["not_begun"] == 0);
  CHECK(built["not_stored"] == 0);
  CHECK(built["jobs"] >= 1);
  CHECK(built["seconds"] > 0);
  CHECK(built["cpu_seconds"] > 0);
  CHECK(built["busy"].get<double>() ==
        doctest::Approx(built["cpu_seconds"].get<double>() / (built["seconds"].get<double>() * built["jobs"].get<int>())));
  CHECK(shop.entries() == 48);
  // Plain lines, since stderr is a file: one for each kernel that was worked on, the last without a time left.
  CHECK(std::ranges::count(first.err, '\n') == 36);
  CHECK_CONTAINS(first.err, "warm: 36/36 built sm_90a test/scale factor=");
  CHECK_CONTAINS(first.err, " left\n");

  const ChildResult second = shop.warm(kQuiet);
  CHECK(second.exit_code == 0);
  CHECK(second.err.empty());
  const Json hit = json_of(second);
  CHECK(hit["built"] == 0);
  CHECK(hit["hit"] == 36);
  CHECK(hit["plans"]["hit"] == 12);

  // An item's own words name it again.
  const Json& item = hit["items"][1];
  const Json one = json_of(kernwright_program(
      {"warm", "--templates", shop.at("templates"), "--template", item["template"], "--specialisation", item["specialisation"], "--tile",
       item["tile"], "--target", item["target"], "--no-fallbacks", "--json", "--quiet"},
      shop.options));
  CHECK(one["built"] == 0);
  CHECK(one["hit"] == 1);
  CHECK(one["items"][0]["key"] == item["key"]);

  const ChildResult text =
      kernwright_program({"warm", "--templates", shop.at("templates"), "--list", shop.at("list.toml"), "--quiet"}, shop.options);
  CHECK_CONTAINS(text.out,
                 "48 kernels: 0 built, 36 hit, 12 skipped (above the target's limits), 0 failed; 12 plan tables: 0 built, 12 hit");
  CHECK_CONTAINS(text.out, "needs 1048576 bytes of dynamic shared memory a block, sm_90a offers 232448 (12 kernels)");
}

TEST_CASE("command line: warm interrupted finishes what compiles, says how far it came, and goes on from there") {
  for (const auto& [number, code] : {std::pair{SIGINT, 130}, {SIGTERM, 143}}) {
    const Workshop shop;
    ChildOptions interrupted = shop.options;
    bool sent = false;
    interrupted.while_running = [&, number = number](pid_t child) {
      if (!sent && shop.entries() >= 15) sent = ::kill(child, number) == 0;
    };
    const ChildResult result = shop.warm(kOneJob, interrupted);
    if (without_nvrtc(result)) return;
    CHECK(result.exited);
    CHECK_MESSAGE(result.exit_code == code, result.err);
    CHECK_CONTAINS(result.err, "stopping");
    const Json json = json_of(result);
    CHECK(json["interrupted"] == true);
    CHECK(json["failed"] == 0);
    const int built = json["built"];
    const int left = json["not_begun"];
    CHECK(built >= 1);
    CHECK(left >= 1);
    CHECK(built + left == 36);
    CHECK(shop.entries() == static_cast<std::size_t>(12 + built));
    const Json rest = json_of(shop.warm(kQuiet));
    CHECK(rest["built"] == left);
    CHECK(rest["hit"] == built);
    CHECK(rest["plans"]["hit"] == 12);
  }
}

TEST_CASE("command line: warm that was killed builds only the rest the next time") {
  const Workshop shop;
  ChildOptions killed = shop.options;
  killed.while_running = [&](pid_t child) {
    if (shop.entries() >= 15) ::kill(child, SIGKILL);
  };
  const ChildResult result = shop.warm(kQuiet + kOneJob, killed);
  if (without_nvrtc(result)) return;
  CHECK_FALSE(result.exited);
  CHECK(result.out.empty());
  const int kept = static_cast<int>(shop.entries()) - 12;
  REQUIRE(kept >= 3);
  REQUIRE(kept < 36);
  const Json rest = json_of(shop.warm(kQuiet));
  CHECK(rest["built"] == 36 - kept);
  CHECK(rest["hit"] == kept);
  CHECK(rest["plans"]["hit"] == 12);
  CHECK(json_of(shop.warm(kQuiet))["hit"] == 36);
}

TEST_CASE("command line: warm with a kernel that fails is exit code 1 with the compiler's words, and builds the others") {
  const Workshop shop;
  shop.write_list("[1, 13]");
  const ChildResult result = shop.warm(kQuiet);
  if (without_nvrtc(result)) return;
  CHECK(result.exit_code == 1);
  const Json json = json_of(result);
  CHECK(json["built"] == 5);
  CHECK(json["failed"] == 1);
  const auto failed = std::ranges::find_if(json["items"], [](const Json& item) { return item["status"] == "failed"; });
  REQUIRE(failed != json["items"].end());
  CHECK((*failed)["specialisation"] == "factor=13");
  CHECK((*failed)["tile"] == "plain:m1n40s1w1");
  CHECK_CONTAINS((*failed)["detail"].get<std::string>(), "thirteen cannot have forty");
  const ChildResult text =
      kernwright_program({"warm", "--templates", shop.at("templates"), "--list", shop.at("list.toml"), "--quiet"}, shop.options);
  CHECK(text.exit_code == 1);
  CHECK_CONTAINS(text.out, "failed   sm_90a test/scale factor=13 plain:m1n40s1w1\n");
  CHECK_CONTAINS(text.out, "thirteen cannot have forty");
}

TEST_CASE("command line: warm without a compiler is exit code 3, said once") {
  const TemporaryFolder folder;
  ChildOptions store = in_store(folder.path() / "store");
  store.environment["KERNWRIGHT_NVRTC"] = "/nonexistent/libnvrtc.so";
  const ChildResult result = kernwright_program({"warm", "--target", "sm_80,sm_90a", "--json"}, store);
  CHECK(result.exit_code == 3);
  CHECK(result.out.empty());
  CHECK_CONTAINS(result.err, "/nonexistent/libnvrtc.so");
  CHECK(std::ranges::count(result.err, '\n') == 1);
}

TEST_CASE("command line: warm into a store that takes nothing is exit code 3") {
  const ChildResult result = kernwright_program(
      {"warm", "--target", "host", "--template", "sparse_mla/union_build", "--specialisation", "group_size=2", "--no-fallbacks", "--json"},
      in_store("/dev/null/store"));
  CHECK_MESSAGE(result.exit_code == 3, result.err);
  CHECK(json_of(result)["not_stored"] == 2);
  CHECK_CONTAINS(result.err, "/dev/null/store");
}

TEST_CASE("command line: warm's words that are off are refused with what is legal") {
  const TemporaryFolder folder;
  const std::string list = (folder.path() / "list.toml").string();
  const auto refused = [&](const std::vector<std::string>& words, const std::vector<std::string>& parts) {
    check_refused(std::vector<std::string>{"warm"} + words, parts);
  };
  refused({"--list", list}, {list});
  write_file(list, "format = 1\n[[launch]]\ntemplate = \"sparse_mla/prefill\"\nspecialisation = { heads = 500, group_size = 1 }\n");
  refused({"--list", list, "--target", "sm_90a"}, {list + ":2: ", "heads", "500", "1 to 128"});
  write_file(list, "format = 1\n[[launch]]\ntemplate = \"sparse_mla/prefill\"\nspecialisation = { heads = 8, group_size = 1 }\n");
  refused({"--list", list}, {list + ":2: ", "names no target", "targets = ["});
  write_file(
      list, "format = 1\n[[launch]]\ntemplate = \"sparse_mla/union_build\"\ntargets = [\"sm_90a\"]\nspecialisation = { group_size = 2 }\n");
  refused({"--list", list, "--target", "sm_80"}, {list, "no launch is for sm_80", "for sm_90a"});
  write_file(list, "format = 1\nlunch = 1\n");
  refused({"--list", list}, {list + ":2: ", "'lunch'", "launch"});
  refused({"--list", list, "--heads", "8"}, {"--list", "--heads"});
  refused({"--list", list, "--template", "x"}, {"--list", "--template"});
  refused({"--specialisation", "heads=8", "--target", "host"}, {"--specialisation", "--template"});
  refused({"--template", "sparse_mla/prefil", "--target", "host"}, {"--template sparse_mla/prefil", "sparse_mla/prefill"});
  refused({"--template", "sparse_mla/prefill", "--specialisation", "heads", "--target", "host"},
          {"--specialisation", "'heads'", "heads=8"});
  refused({"--template", "sparse_mla/prefill", "--specialisation", "heads=8", "--target", "host"}, {"group_size", "1, 2, 4, 8, 16"});
  refused({"--template", "sparse_mla/prefill", "--specialisation", "heads=8 group_size=1", "--tile", "mma", "--target", "host"},
          {"--tile", "'mma'", "mma:m64n32s2w8"});
  refused({"--template", "sparse_mla/prefill", "--specialisation", "heads=8 group_size=1", "--tile", "tma:m1n1s1w1", "--target", "host"},
          {"--tile", "'tma'", "portable, mma, wgmma"});
  refused({"--template", "sparse_mla/union_build", "--specialisation", "group_size=2"}, {"--target", "--for-device"});
  refused({"--target", "sm_90a", "--for-device"}, {"--for-device", "--target"});
  refused({"--target", "host", "--heads", "8,129"}, {"'129' is out of range"});
  refused({"--target", "host", "--heads", ""}, {"--heads"});
  refused({"--target", "host", "--templates", "/nonexistent/templates"}, {"/nonexistent/templates"});
}

TEST_CASE("command line: warm for a target that there is not is off words, said once with what is legal") {
  const Workshop shop;
  for (const std::string target : {"sm_91a", "sm_80a"}) {  // the number, and the suffix
    const ChildResult result = shop.warm({"--target", "sm_90a," + target});
    if (without_nvrtc(result)) return;
    CHECK_MESSAGE(result.exit_code == 2, result.err);
    CHECK(result.out.empty());
    CHECK(std::ranges::count(result.err, '\n') == 1);
    CHECK_CONTAINS(result.err, "'" + target + "' is no target");
    CHECK_CONTAINS(result.err, "legal are host, sm_80, sm_86, sm_89, sm_90a,");
  }
  CHECK(shop.entries() == 0);
}

TEST_CASE("command line: warm for a target that no device asks for says which one they do") {
  const Workshop shop;
  const std::vector<std::string> prefill{"warm", "--heads", "8", "--union", "0", "--write-list", "-", "--target"};
  const ChildResult plain = kernwright_program(prefill + std::vector<std::string>{"sm_90,sm_90a,sm_80"}, shop.options);
  CHECK(plain.exit_code == 0);
  CHECK_CONTAINS(plain.err,
                 "note: no device finds what is warmed for sm_90: those of compute capability 9.0 ask for sm_90a, which has variants that "
                 "sm_90 lacks: wgmma");
  CHECK(std::ranges::count(plain.err, '\n') == 1);
  CHECK(kernwright_program(prefill + std::vector<std::string>{"sm_90", "--quiet"}, shop.options).err.empty());
  // A template without variants of its own for the other target.
  const ChildResult same = shop.warm({"--target", "sm_100f", "--write-list", "-"});
  CHECK_CONTAINS(same.err, "those of compute capability 10.0 ask for sm_100a\n");
}

TEST_CASE("command line: warm --for-device asks the driver for targets and limits") {
  ChildOptions none = in_store();
  none.environment["KERNWRIGHT_CUDA_DRIVER"] = "/nonexistent/libcuda.so.1";
  const ChildResult refused = kernwright_program({"warm", "--for-device"}, none);
  CHECK(refused.exit_code == 3);
  CHECK_CONTAINS(refused.err, "/nonexistent/libcuda.so.1");
  CHECK_CONTAINS(refused.err, "--target sm_90a");

  const Workshop shop;
  ChildOptions fake = shop.options;
  fake.environment["KERNWRIGHT_CUDA_DRIVER"] = KERNWRIGHT_FAKE_CUDA;  // one device of compute capability 9.0
  shop.write_list("1");
  const ChildResult result = shop.warm({"--quiet", "--for-device"}, fake);
  if (without_nvrtc(result)) return;
  CHECK_MESSAGE(result.exit_code == 0, result.err);
  const Json json = json_of(result);
  CHECK(json["built"] == 3);
  CHECK(json["items"][0]["target"] == "sm_90a");
  CHECK_CONTAINS(json["items"][0]["detail"].get<std::string>(), "Fake H200 offers 232448");
}

TEST_CASE("command line: warm --write-list writes what it would warm, and the documented default list is that") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "list.toml").string();
  const ChildResult written = kernwright_program({"warm", "--target", "sm_90a,sm_100a,sm_120a", "--write-list", file});
  CHECK(written.exit_code == 0);
  CHECK_CONTAINS(written.out, file);
  CHECK(read_file(file) == read_file(std::filesystem::path(KERNWRIGHT_SOURCE_FOLDER) / "docs" / "default_launch_list.toml"));
  const ChildResult printed = kernwright_program({"warm", "--list", file, "--write-list", "-"});
  CHECK(printed.out == read_file(file));
  // A target beside the list replaces the list's.
  CHECK_CONTAINS(kernwright_program({"warm", "--list", file, "--target", "host", "--no-fallbacks", "--write-list", "-"}).out,
                 "targets = [\"host\"]\n\n[[launch]]\ntemplate = \"sparse_mla/prefill\"\nfall_backs = false\n");
  CHECK_CONTAINS(kernwright_program({"warm", "--target", "sm_80", "--heads", "3-4", "--union", "2", "--write-list", "-"}).out,
                 "heads = 4 }");
  CHECK(kernwright_program({"warm", "--target", "host", "--write-list", "/nonexistent/folder/list.toml"}).exit_code == 2);
}

TEST_CASE("command line: the launch list that the documentation shows is one") {
  const std::string page = read_file(std::filesystem::path(KERNWRIGHT_SOURCE_FOLDER) / "docs" / "cache.md");
  const std::string fence = "```toml\n";
  const std::size_t begin = page.find(fence, page.find("### Launch lists"));
  REQUIRE(begin != std::string::npos);
  const TemporaryFolder folder;
  const std::string list = (folder.path() / "list.toml").string();
  write_file(list, page.substr(begin + fence.size(), page.find("```", begin + fence.size()) - begin - fence.size()));
  const ChildResult result = kernwright_program({"warm", "--list", list, "--write-list", "-"});
  CHECK_MESSAGE(result.exit_code == 0, result.err);
  std::size_t launches = 0;
  for (std::size_t at = result.out.find("[[launch]]"); at != std::string::npos; at = result.out.find("[[launch]]", at + 1)) ++launches;
  CHECK(launches == 4);
}

TEST_CASE("command line: warm for host") {
  const TemporaryFolder folder;
  const ChildOptions store = in_store(folder.path() / "store");
  const ChildResult result = kernwright_program(
      {"warm", "--target", "host", "--template", "sparse_mla/union_build", "--specialisation", "group_size=2", "--no-fallbacks", "--json"},
      store);
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  const Json json = json_of(result);
  CHECK(json["built"] == 1);
  CHECK(json["cpu_seconds"] > 0.05);  // the compiler is another process, and is counted
  CHECK_CONTAINS(result.err, "warm: 1/1 built host sparse_mla/union_build group_size=2 portable:");
}
