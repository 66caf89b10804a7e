// kernwright doctor
#include <unistd.h>

#include <algorithm>
#include <set>

#include "store/build_lock.hpp"
#include "store/compiler_record.hpp"
#include "unit/tools/example_store.hpp"
#include "unit/tools/program.hpp"

using namespace kernwright;
using namespace kernwright::tests;
using Json = nlohmann::json;

namespace {

namespace fs = std::filesystem;

std::set<std::string> all_names(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) names.insert(entry.path().lexically_relative(folder).string());
  return names;
}

bool has_problem(const Json& json, std::string_view part) {
  return std::ranges::any_of(json["problems"], [&](const Json& each) { return contains(each["what"].get<std::string>(), part); });
}

}  // namespace

TEST_CASE("doctor: it says what works and what would mend the rest") {
  const Json json = json_of(kernwright_program({"doctor", "--json"}));
  for (const char* part :
       {"version", "cuda_works", "host_works", "driver", "nvrtc", "devices", "host", "stores", "sealing", "tuning", "problems"})
    CHECK(json.contains(part));
  CHECK(json["stores"].back()["folder"] == program_store());
  CHECK(json["stores"].back()["writable"] == true);
  CHECK(json["host_works"] == true);

  ChildOptions nothing = in_store("/proc/no/such/folder");
  nothing.environment["PATH"] = "/nonexistent";
  nothing.environment["CXX"] = "";
  nothing.environment["KERNWRIGHT_CUDA_DRIVER"] = "/nonexistent/libcuda.so.1";
  nothing.environment["KERNWRIGHT_NVRTC"] = "/nonexistent/libnvrtc.so";
  const ChildResult result = kernwright_program({"doctor", "--json"}, nothing);
  CHECK(result.exit_code == 3);
  const Json broken = json_of(result);
  CHECK(broken["cuda_works"] == false);
  CHECK(broken["host_works"] == false);
  CHECK(broken["stores"][0]["exists"] == false);
  CHECK(broken["stores"][0]["problems"].size() == 1);
  CHECK(broken["driver"]["problem"].is_string());
  CHECK(broken["nvrtc"]["problem"].is_string());
  CHECK(broken["problems"].size() >= 4);
  for (const Json& problem : broken["problems"]) CHECK(!problem["remedy"].get<std::string>().empty());
  CHECK_CONTAINS(kernwright_program({"doctor"}, nothing).out, "A run is possible on no target");
  CHECK(kernwright_program({"run", "sparse-mla", "--target", "host"}, nothing).exit_code == 3);
}

TEST_CASE("doctor: of every store it tells folder, rights, space, locks and content, and leaves nothing behind") {
  const TemporaryFolder folder;
  ExampleStore read_only(folder.path() / "read_only"), writable(folder.path() / "writable");
  const Artifact artifact = example_artifact();
  read_only.add(artifact);
  write_file(read_only.add(example_artifact_with(16, 100)), "bad");
  writable.add(artifact);
  writable.add(example_plans());
  writable.add_fit();
  const auto lock = writable.store().try_lock_build(artifact.key, "process 4711 on somewhere");
  REQUIRE((lock && lock->lock));
  const auto before = all_names(folder.path());
  ChildOptions options = in_store(writable.path());
  options.environment["KERNWRIGHT_CACHE_STORES"] = read_only.path().string();
  options.environment["KERNWRIGHT_CACHE_LIMIT"] = "8M";
  const Json json = json_of(kernwright_program({"doctor", "--json"}, options));
  CHECK(all_names(folder.path()) == before);
  REQUIRE(json["stores"].size() == 2);
  const Json& far = json["stores"][0];
  const Json& near = json["stores"][1];
  CHECK(far["folder"] == read_only.path().string());
  CHECK(far["access"] == "read-only");
  CHECK(far["probed"] == false);
  CHECK(far["locks_work"].is_null());
  CHECK(far["entries"] == 2);
  CHECK(far["bad"] == 1);
  CHECK(far["limit"].is_null());
  REQUIRE(far["problems"].size() == 1);
  CHECK_CONTAINS(far["problems"][0]["what"].get<std::string>(), "1 of its 2 entries is bad");
  CHECK_CONTAINS(far["problems"][0]["remedy"].get<std::string>(), "cache verify");

  CHECK(near["folder"] == writable.path().string());
  CHECK(near["access"] == "writable");
  CHECK(near["exists"] == true);
  CHECK(near["own"] == true);
  CHECK(near["owner"] == ::geteuid());
  CHECK(near["mode"] == 0700);
  CHECK(near["writable"] == true);
  CHECK(near["probed"] == true);
  CHECK(near["locks_work"] == true);
  CHECK(near["lock_holders"] == Json{"process 4711 on somewhere"});
  CHECK(near["limit"] == 8U << 20);
  CHECK(near["entries"] == 2);
  CHECK(near["fits"] == 1);
  CHECK(near["used"] == writable.store().list()->at(0).allocated.count + writable.store().list()->at(1).allocated.count);
  CHECK(near["free"] > 0);
  CHECK(near["file_system"].is_string());
  CHECK(near["targets"] == Json{{"sm_90a", 2}});
  REQUIRE(near["compilers"].size() == 1);
  CHECK(near["compilers"][0]["record"] == compiler_record_name(artifact.compiler));
  CHECK(near["compilers"][0]["entries"] == 2);
  CHECK(near["compilers"][0]["present"] == false);
  CHECK(near["problems"].empty());

  const std::string text = kernwright_program({"doctor"}, options).out;
  CHECK_CONTAINS(text, "store      " + read_only.path().string() + ": read-only\n");
  CHECK_CONTAINS(text, "store      " + writable.path().string() + ": writable, a write works\n");
  CHECK_CONTAINS(text, "(this user), mode 0700\n");
  CHECK_CONTAINS(text, " of 8 MiB; 1 fit\n");
  CHECK_CONTAINS(text, "locks work; builds under way: process 4711 on somewhere\n");
  CHECK_CONTAINS(text, "entries by target: sm_90a 2\n");
  CHECK_CONTAINS(text, "by nvrtc 13.0 (" + compiler_record_name(artifact.compiler).substr(0, 8) + "): 2 entries\n");
  CHECK(all_names(folder.path()) == before);
}

TEST_CASE("doctor: a store that is not there yet is not made, and a read-only one that is not there is a problem") {
  const TemporaryFolder folder;
  ChildOptions options = in_store(folder.path() / "deep" / "store");
  options.environment["KERNWRIGHT_CACHE_STORES"] = (folder.path() / "typo").string();
  const ChildResult result = kernwright_program({"doctor", "--json"}, options);
  const Json json = json_of(result);
  CHECK(fs::is_empty(folder.path()));
  CHECK(json["stores"][0]["exists"] == false);
  CHECK(has_problem(json, "typo: it is named in KERNWRIGHT_CACHE_STORES and not there"));
  CHECK(json["stores"][1]["exists"] == false);
  CHECK(json["stores"][1]["writable"] == true);
  CHECK(json["stores"][1]["probed"] == false);
  CHECK(json["stores"][1]["problems"].empty());
}

TEST_CASE("doctor: entries that the compiler which is here did not make are no hits, unless the process is sealed") {
  const TemporaryFolder folder;
  ExampleStore example(folder.path() / "store");
  Artifact artifact = example_artifact();
  artifact.request.target = Target::host();
  artifact.compiler = {"host", "another compiler 1.0", {}};
  artifact.key = entry_key(artifact.request, artifact.compiler);
  example.add(artifact);
  ChildOptions options = in_store(example.path());
  const std::string label = "host another compiler 1.0 (" + compiler_record_name(artifact.compiler).substr(0, 8) + ")";
  const Json json = json_of(kernwright_program({"doctor", "--json"}, options));
  CHECK(has_problem(json, "none of the stores' 1 entries of the kind host"));
  CHECK(json["sealing"]["sealed"] == false);
  REQUIRE(json["sealing"]["starts"].size() == 2);
  CHECK(json["sealing"]["starts"][0]["family"] == "nvrtc");
  CHECK(json["sealing"]["starts"][0]["compilers"].empty());
  CHECK(json["sealing"]["starts"][0]["problem"].is_string());
  CHECK(json["sealing"]["starts"][1]["family"] == "host");
  CHECK(json["sealing"]["starts"][1]["compilers"] == Json{label});

  options.environment["KERNWRIGHT_SEALED"] = "1";
  const Json sealed = json_of(kernwright_program({"doctor", "--json"}, options));
  CHECK(sealed["sealing"]["sealed"] == true);
  CHECK_FALSE(has_problem(sealed, "entries of the kind host"));
  CHECK_CONTAINS(kernwright_program({"doctor"}, options).out, "sealed     yes: nothing is compiled\n");
  // Sealed, without a store that lists a compiler.
  const ChildOptions empty = [&] {
    ChildOptions changed = options;
    changed.environment["KERNWRIGHT_CACHE_DIR"] = (folder.path() / "empty").string();
    return changed;
  }();
  CHECK(has_problem(json_of(kernwright_program({"doctor", "--json"}, empty)), "no store lists a compiler"));
}

TEST_CASE("doctor: it lists the built-in tuning tables, and how many of their rows hold for what is here") {
  ChildOptions options = in_store();
  options.environment["KERNWRIGHT_CUDA_DRIVER"] = "/nonexistent/libcuda.so.1";
  options.environment["KERNWRIGHT_TUNING_DIR"] = "";
  const Json here = json_of(kernwright_program({"doctor", "--json"}, options))["tuning"];
  CHECK(here["folder"].is_null());
  CHECK(here["problem"].is_null());
  std::set<std::string> names, templates;
  for (const Json& table : here["tables"]) {
    names.insert(table["name"]);
    CHECK(table["built_in"] == true);
    for (const Json& rows : table["templates"]) {
      CAPTURE(rows.dump());
      templates.insert(rows["template"]);
      CHECK(rows["known"] == true);
      CHECK(rows["tiles"] > 0);
      CHECK(rows["elsewhere"] == rows["tiles"].get<int>() + rows["preferences"].get<int>());  // measured on a GPU, and there is none here
      CHECK(rows["here"] == Json{{"device", 0}, {"target", 0}, {"default", 0}});
      CHECK(rows["stale"] == 0);
      CHECK(rows["wrong"].empty());
    }
  }
  CHECK(templates == std::set<std::string>{"paged_mla/decode", "sparse_mla/prefill"});
  CHECK(names.contains("sparse_mla-h200.toml"));
  REQUIRE(here["devices"].size() == 1);
  CHECK(here["devices"][0]["id"] == "host");
  CHECK(here["devices"][0]["measured_tiles"] == 0);
  const std::string text = kernwright_program({"doctor"}, options).out;
  CHECK_CONTAINS(text, "built-in sparse_mla-h200.toml: sparse_mla/prefill: ");
  CHECK_CONTAINS(text, "host (Kernwright's interpreter): nothing was measured for it, default tiles run\n");
}

TEST_CASE("doctor: of a user's tuning tables it tells what holds for the devices here, what is stale, wrong, or for templates of nobody") {
  const TemporaryFolder folder;
  const auto tile = [](const std::string& name, const std::string& fields) {
    return "[[tile]]\ntemplate = \"" + name + "\"\ntile = \"portable:m16n16s1w4\"\n" + fields;
  };
  const std::string prefill = "sparse_mla/prefill";
  write_file(folder.path() / "mine.toml",
             "format = 1\n" + tile(prefill, "target = \"default\"\n") + tile(prefill, "target = \"host\"\nmeasured = \"here\"\n") +
                 tile(prefill, "target = \"sm_90a\"\nmeasured = \"there\"\n") +
                 tile(prefill, "target = \"sm_90a\"\ndevice = \"Fake H200\"\nmeasured = \"there\"\n") +
                 tile(prefill, "target = \"sm_80\"\n") + tile(prefill, "target = \"host\"\ndigest = \"00aa\"\nmeasured = \"once\"\n") +
                 tile(prefill, "target = \"host\"\nwhen = { haeds = 8 }\n") +
                 "[[preference]]\ntemplate = \"sparse_mla/prefill\"\ntarget = \"host\"\nparameter = \"group_size\"\nvalue = 2\n" +
                 tile("engine/rms_norm", "target = \"default\"\n"));
  ChildOptions options = in_store();
  options.environment["KERNWRIGHT_TUNING_DIR"] = folder.path().string();
  for (const char* driver : {KERNWRIGHT_FAKE_CUDA, "/nonexistent/libcuda.so.1"}) {
    const bool gpu = driver == std::string_view(KERNWRIGHT_FAKE_CUDA);
    CAPTURE(gpu);
    options.environment["KERNWRIGHT_CUDA_DRIVER"] = driver;
    const Json json = json_of(kernwright_program({"doctor", "--json"}, options));
    const Json& tuning = json["tuning"];
    CHECK(tuning["folder"] == folder.path().string());
    CHECK(tuning["named_by"] == "KERNWRIGHT_TUNING_DIR");
    const Json& table = tuning["tables"][0];  // asked first
    CHECK(table["name"] == (folder.path() / "mine.toml").string());
    CHECK(table["built_in"] == false);
    REQUIRE(table["templates"].size() == 2);
    const Json& unknown = table["templates"][0];
    CHECK(unknown["template"] == "engine/rms_norm");
    CHECK(unknown["known"] == false);
    CHECK(unknown["tiles"] == 1);
    const Json& known = table["templates"][1];
    CHECK(known["tiles"] == 7);
    CHECK(known["preferences"] == 1);
    CHECK(known["here"] == (gpu ? Json{{"device", 1}, {"target", 3}, {"default", 1}} : Json{{"device", 0}, {"target", 2}, {"default", 1}}));
    CHECK(known["elsewhere"] == (gpu ? 1 : 3));
    CHECK(known["stale"] == 1);
    CHECK(known["stale_digests"] == Json{"00aa"});
    REQUIRE(known["wrong"].size() == 1);
    CHECK_CONTAINS(known["wrong"][0].get<std::string>(), "{ haeds = 8 }");
    CHECK(tuning["devices"].back()["measured_tiles"] == 1);  // host
    if (gpu) CHECK(tuning["devices"].front()["measured_tiles"] == 2);
    CHECK(has_problem(json, "holds for other sources of sparse_mla/prefill than these: 1 of 8 rows"));
    CHECK(has_problem(json, "counts for nothing: when = { haeds = 8 }"));

    const std::string text = kernwright_program({"doctor"}, options).out;
    const std::string line = (folder.path() / "mine.toml").string() + ": sparse_mla/prefill: 7 tiles, 1 preference; ";
    CHECK_CONTAINS(text, line +
                             (gpu ? "1 for a device here, 3 for a target here, 1 for any (default), 1 for other devices, "
                                  : "2 for a target here, 1 for any (default), 3 for other devices, ") +
                             "1 stale, see below, 1 wrong, see below\n");
    CHECK_CONTAINS(text, "mine.toml: engine/rms_norm: 1 tile; no such template is built in");
  }
}

TEST_CASE("doctor: a tuning folder that is none is a note, and a table that cannot be read stops every run") {
  const TemporaryFolder folder;
  ChildOptions options = in_store();
  const auto asked = [&](const fs::path& named) {
    options.environment["KERNWRIGHT_TUNING_DIR"] = named.string();
    return kernwright_program({"doctor", "--json"}, options);
  };
  const ChildResult typo = asked(folder.path() / "typo");
  CHECK(typo.exit_code == 0);
  CHECK(typo.err.empty());
  CHECK(has_problem(json_of(typo), "typo: there is no such folder: the built-in tuning tables alone are used"));
  CHECK(has_problem(json_of(asked(folder.path())), "no file *.toml is in it"));
  write_file(folder.path() / "mine.toml", "format = 2\n");
  const ChildResult wrong = asked(folder.path());
  CHECK(wrong.exit_code == 3);
  CHECK_CONTAINS(json_of(wrong)["tuning"]["problem"].get<std::string>(), "mine.toml:1");
  CHECK(has_problem(json_of(wrong), "mine.toml:1"));
  CHECK_CONTAINS(kernwright_program({"doctor"}, options).out, "A run is possible on no target");
  CHECK(kernwright_program({"run", "sparse-mla", "--target", "host", "--quiet"}, options).exit_code != 0);
}
