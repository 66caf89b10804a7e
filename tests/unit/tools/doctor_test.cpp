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
  for (const char* part : {"version", "cuda_works", "host_works", "driver", "nvrtc", "devices", "host", "stores", "sealing", "problems"})
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
