// Warm on one machine, pack, unpack elsewhere, serve sealed: as programs, with the compilers out of reach where nothing may be compiled.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "fixtures/temporary_folder.hpp"
#include "unit/tools/program.hpp"

using namespace kernwright::tests;
using Json = nlohmann::json;

namespace {

namespace fs = std::filesystem;

ChildOptions sealed_in(const fs::path& read_only, const fs::path& writable) {
  ChildOptions options = in_store(writable);
  options.environment["KERNWRIGHT_CACHE_STORES"] = read_only.string();
  options.environment.insert_or_assign("KERNWRIGHT_SEALED", std::string(1, '1'));  // "1" itself: a false warning of GCC 12 (-Wrestrict)
  options.environment.insert_or_assign("CXX", "/no/such/compiler");
  options.environment.insert_or_assign("KERNWRIGHT_NVRTC", "/no/such/libnvrtc.so");
  return options;
}

}  // namespace

TEST_CASE("sealed: warm, pack, unpack, verify and run without any compiler, what is missing is named") {
  const TemporaryFolder folder;
  const fs::path built = folder.path() / "build machine", served = folder.path() / "served", bundle = folder.path() / "bundle.kwb",
                 list = folder.path() / "list.toml";
  const std::vector<std::string> small{"run",    "sparse-mla", "--target", "host", "--tokens", "9",      "--heads", "2",
                                       "--topk", "6",          "--union",  "4",    "--check",  "--json", "--quiet"};
  // The list of what a run needs: both union builds and the attention kernel, first tiles only.
  write_file(list, R"(format = 1
targets = ["host"]
[[launch]]
template = "sparse_mla/union_build"
fall_backs = false
[launch.specialisation]
group_size = 4
[[launch]]
template = "sparse_mla/union_build_wide"
fall_backs = false
[launch.specialisation]
group_size = 4
[[launch]]
template = "sparse_mla/prefill"
fall_backs = false
[launch.specialisation]
heads = 2
group_size = 4
)");
  const ChildResult warmed = kernwright_program({"warm", "--list", list.string(), "--quiet", "--json"}, in_store(built));
  REQUIRE_MESSAGE(warmed.exit_code == 0, warmed.err);
  const std::size_t kernels = json_of(warmed)["built"];
  CHECK(kernels == 3);
  REQUIRE(kernwright_program({"cache", "pack", bundle.string()}, in_store(built)).exit_code == 0);
  REQUIRE(kernwright_program({"cache", "unpack", bundle.string()}, in_store(served)).exit_code == 0);
  fs::remove_all(built);

  const fs::path writable = folder.path() / "writable";
  const ChildResult verified =
      kernwright_program({"cache", "verify", "--sealed", "--list", list.string(), "--json"}, sealed_in(served, writable));
  REQUIRE_MESSAGE(verified.exit_code == 0, verified.out << verified.err);
  CHECK(json_of(verified)["hit"] == kernels);
  CHECK(json_of(verified)["plans_hit"] == kernels);
  CHECK(json_of(verified)["missing"].empty());

  const ChildResult ran = kernwright_program(small, sealed_in(served, writable));
  REQUIRE_MESSAGE(ran.exit_code == 0, ran.err);
  const Json report = json_of(ran);
  for (const Json& launch : report["launches"]) CHECK(launch["cache"] == "store");
  CHECK(report["check"]["passed"] == true);
  CHECK_FALSE(fs::exists(writable));

  // Nothing is missing where nothing is compiled.
  const ChildResult doctor = kernwright_program({"doctor", "--json"}, sealed_in(served, writable));
  CHECK(doctor.exit_code == 0);
  const Json diagnosis = json_of(doctor);
  CHECK(diagnosis["host_works"] == true);
  for (const Json& problem : diagnosis["problems"]) {
    CHECK_FALSE(contains(problem["what"].get<std::string>(), "compiler_unavailable"));
    CHECK(problem["stops_a_run"] == false);
  }

  // Another head count was never warmed.
  std::vector<std::string> other = small;
  other[7] = std::string("3");
  const ChildResult missed = kernwright_program(other, sealed_in(served, writable));
  CHECK(missed.exit_code == 3);
  CHECK_CONTAINS(missed.err, "kernwright warm --template sparse_mla/prefill --specialisation \"heads=3");
  CHECK_FALSE(contains(missed.err, "--templates"));
  // One entry less, and verify says which.
  for (const auto& entry : fs::recursive_directory_iterator(served / "entries")) {
    if (entry.is_regular_file() && entry.file_size() > 4096) {
      fs::remove(entry.path());
      break;
    }
  }
  const ChildResult incomplete =
      kernwright_program({"cache", "verify", "--sealed", "--list", list.string(), "--json"}, sealed_in(served, writable));
  CHECK(incomplete.exit_code == 1);
  REQUIRE(json_of(incomplete)["missing"].size() == 1);
  CHECK(json_of(incomplete)["missing"][0]["reason"].get<std::string>().find("sealed") != std::string::npos);
  // Both words belong together.
  CHECK(kernwright_program({"cache", "verify", "--sealed"}).exit_code == 2);
  CHECK(kernwright_program({"cache", "verify", "--list", list.string()}).exit_code == 2);
}
