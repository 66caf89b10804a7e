// kernwright cache show
#include <sys/stat.h>

#include "backend/backends.hpp"
#include "prepare/options.hpp"
#include "store/compiler_record.hpp"
#include "unit/tools/example_store.hpp"
#include "unit/tools/program.hpp"

using namespace kernwright;
using namespace kernwright::tests;
using Json = nlohmann::json;

namespace {

namespace fs = std::filesystem;

/// An entry that NVRTC can compile again; its binary is no cubin, which nobody here looks into.
Artifact compilable_artifact() {
  Artifact artifact = example_artifact();
  artifact.request.options = {"-DKW_ANSWER=12345"};
  artifact.request.sources[0].content =
      "#include \"demo/scale_plan.cuh\"\nextern \"C\" __global__ void scale(int* p) { p[0] = answer(); }\n";
  artifact.request.sources[1].content = "#pragma once\n__device__ inline int answer() { return KW_ANSWER; }\n";
  artifact.key = entry_key(artifact.request, artifact.compiler);
  return artifact;
}

Artifact host_artifact() {
  Artifact artifact = example_artifact();
  artifact.request.target = Target::host();
  artifact.compiler = {"host", "g++ 12", {}};
  artifact.key = entry_key(artifact.request, artifact.compiler);
  return artifact;
}

std::vector<std::string> show(const std::string& key, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{"cache", "show", key};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// A program of this name in a folder of its own, which becomes the whole PATH.
void put_program(const fs::path& folder, const std::string& script, ChildOptions& options) {
  write_file(folder / "nvdisasm", "#!/bin/sh\n" + script);
  REQUIRE(::chmod((folder / "nvdisasm").c_str(), 0755) == 0);
  options.environment["PATH"] = folder.string() + ":/usr/bin:/bin";
}

bool nvrtc_present(const ChildResult& result) {
  if (!contains(result.err, "compiler_unavailable")) return true;
  MESSAGE("skipped: this machine has no NVRTC");
  return false;
}

}  // namespace

TEST_CASE("cache show: the summary has everything that the entry holds") {
  const TemporaryFolder folder;
  ExampleStore example(folder.path() / "store");
  const Artifact artifact = example_artifact();
  const std::string key = artifact.key.hex();
  example.add(artifact, 7'200 + 1800, 3600 + 1800);
  const ChildOptions store = in_store(example.path());
  const ChildResult result = kernwright_program(show(key.substr(0, 6)), store);
  CHECK_MESSAGE(result.exit_code == 0, result.err);
  for (const std::string& part :
       {"key        " + key + "\n", "store      " + example.path().string() + "\n", std::string(", 2 h ago\n"), std::string(", 1 h ago\n"),
        std::string("template   demo/scale\n"), std::string("constants  heads=8 dtype=bf16\n"), std::string("tile       mma:m64n32s2w8\n"),
        std::string("target     sm_90a\n"),
        std::string("kernel     scale, 256 threads, 64 rows a block, 72 KiB dynamic shared memory, parameters of 48 bytes\n"),
        std::string("resources  96 registers, 1 KiB static shared memory, 16 B stack, spills 4 B stored 8 B loaded\n"),
        std::string("compiled   in 125 ms, 1000 B of binary\n"), std::string("options    --std=c++20 -lineinfo\n"),
        "compiler   nvrtc 13.0 (" + compiler_record_name(artifact.compiler).substr(0, 8) + ")\n",
        std::string("           libnvrtc: 0123abcd\n"),
        "sources    demo/scale_mma.cu  " + std::to_string(artifact.request.sources[0].content.size()) + " B\n",
        std::string("           demo/scale_plan.cuh  22 B\n"), std::string("log        40 B; --log prints it\n")}) {
    CHECK_CONTAINS(result.out, part);
  }
  const Json json = json_of(kernwright_program(show(key, {"--json"}), store));
  CHECK(json["key"] == key);
  CHECK(json["entry"] == "scale");
  CHECK(json["binary_size"] == 1000);
  CHECK(json["options"] == Json{"--std=c++20", "-lineinfo"});
  CHECK(json["plans"][0]["rows_per_block"] == 64);
  CHECK(json["plans"][0]["params_bytes"] == 48);
  CHECK(json["sources"].size() == 3);
  CHECK(json["sources"][1] == Json{{"name", "demo/scale_plan.cuh"}, {"size", artifact.request.sources[1].content.size()}});
  CHECK(json["log"] == "ptxas info : Used 96 registersand more\n");
  CHECK(json["also_in"].empty());
}

TEST_CASE("cache show: plans are a table of tiles") {
  const TemporaryFolder folder;
  ExampleStore example(folder.path() / "store");
  const Artifact plans = example_plans();
  example.add(plans);
  const ChildOptions store = in_store(example.path());
  const std::string text = kernwright_program(show(plans.key.hex()), store).out;
  CHECK_CONTAINS(text, "plans      2 tiles\n");
  CHECK_CONTAINS(text, "           mma:m64n32s2w8         256          72 KiB            64        1\n");
  CHECK_CONTAINS(text, "           mma:m128n64s3w8  not legal\n");
  const Json json = json_of(kernwright_program(show(plans.key.hex(), {"--json"}), store));
  CHECK(json["kind"] == "plans");
  CHECK(json["plans"][0]["legal"] == true);
  CHECK(json["plans"][1]["legal"] == false);
  check_refused(show(plans.key.hex(), {"--sass"}), {"--sass", "plans"}, store);
  check_refused(show(plans.key.hex(), {"--binary", (folder.path() / "x").string()}), {"--binary", "plans"}, store);
}

TEST_CASE("cache show: sources, log and binary come out as they went in") {
  const TemporaryFolder folder;
  ExampleStore example(folder.path() / "store");
  const Artifact artifact = example_artifact();
  const std::string key = artifact.key.hex();
  example.add(artifact);
  const ChildOptions store = in_store(example.path());
  std::string all;
  for (const SourceFile& source : artifact.request.sources) {
    all += "==> " + source.name + " <==\n" + source.content;
    CHECK(kernwright_program(show(key, {"--source", source.name}), store).out == source.content);
  }
  CHECK(kernwright_program(show(key, {"--source"}), store).out == all);
  const Json json = json_of(kernwright_program(show(key, {"--source", "--json"}), store));
  REQUIRE(json["sources"].size() == 3);
  CHECK(json["sources"][1]["content"] == artifact.request.sources[1].content);
  check_refused(show(key, {"--source", "demo/none.cu"}), {"demo/none.cu", "demo/scale_mma.cu, demo/scale_plan.cuh"}, store);

  CHECK(kernwright_program(show(key, {"--log"}), store).out == "ptxas info : Used 96 registersand more\n");
  CHECK(json_of(kernwright_program(show(key, {"--log", "--json"}), store))["log"] == "ptxas info : Used 96 registersand more\n");

  const fs::path file = folder.path() / "kernel.cubin";
  const ChildResult written = kernwright_program(show(key, {"--binary", file.string()}), store);
  CHECK(written.exit_code == 0);
  CHECK_CONTAINS(written.out, "written to " + file.string());
  const std::string bytes = read_file(file);
  REQUIRE(bytes.size() == artifact.binary.size());
  CHECK(
      std::equal(bytes.begin(), bytes.end(), artifact.binary.begin(), [](char a, std::byte b) { return static_cast<std::byte>(a) == b; }));
  check_refused(show(key, {"--binary", (folder.path() / "no" / "such" / "file").string()}), {"No such file"}, store);
  check_refused(show(key, {"--log", "--ptx"}), {"--log"}, store);
}

TEST_CASE("cache show: a key is found in every store by its first digits, and what is not clear is refused") {
  const TemporaryFolder folder;
  ExampleStore first(folder.path() / "first"), second(folder.path() / "second");
  // Two keys with the same first four digits, found by trying.
  std::map<std::string, Artifact> seen;
  std::optional<std::pair<Artifact, Artifact>> twins;
  for (int i = 1; !twins; ++i) {
    Artifact artifact = example_artifact_with(16, 100);
    artifact.request.specialisation = Specialisation().set("heads", i);
    artifact.key = entry_key(artifact.request, artifact.compiler);
    const auto [found, is_new] = seen.emplace(artifact.key.hex().substr(0, 4), artifact);
    if (!is_new) twins.emplace(found->second, artifact);
  }
  const auto& [one, other] = *twins;
  first.add(one);
  second.add(one);
  ChildOptions options = in_store(second.path());
  options.environment["KERNWRIGHT_CACHE_STORES"] = first.path().string();
  const std::string digits = one.key.hex().substr(0, 4);
  const Json both = json_of(kernwright_program(show(digits, {"--json"}), options));
  CHECK(both["store"] == first.path().string());
  CHECK(both["also_in"] == Json{second.path().string()});
  CHECK_CONTAINS(kernwright_program(show(digits), options).out, "also in " + second.path().string());
  CHECK(json_of(kernwright_program(show(digits, {"--json", "--store", second.path().string()}), options))["also_in"].empty());

  second.add(other);
  check_refused(show(digits), {"several keys begin with " + digits, one.key.hex(), other.key.hex(), "more digits"}, options);
  CHECK(kernwright_program(show(other.key.hex()), options).exit_code == 0);
  check_refused(show("ffffffffffff"), {"ffffffffffff", first.path().string(), second.path().string()}, options);
  check_refused(show("fff"), {"'fff' is no key", "4"}, options);
  check_refused(show("../../etc"), {"is no key"}, options);
}

TEST_CASE("cache show: of a bad entry the reason is shown, and no part") {
  const TemporaryFolder folder;
  ExampleStore example(folder.path() / "store");
  const std::string key = example_artifact().key.hex();
  write_file(example.add(example_artifact()), "short");
  const ChildOptions store = in_store(example.path());
  const ChildResult summary = kernwright_program(show(key), store);
  CHECK(summary.exit_code == 1);
  CHECK_CONTAINS(summary.out, "BAD        it has 5 bytes");
  for (const char* part : {"--source", "--log", "--ptx", "--sass"}) check_error(1, show(key, {part}), {"is bad", "5 bytes"}, store);
  check_error(1, show(key, {"--binary", (folder.path() / "x").string()}), {"is bad"}, store);
  CHECK_FALSE(fs::exists(folder.path() / "x"));
}

TEST_CASE("cache show: PTX is made again from the stored source, with a note where another compiler made the entry") {
  const TemporaryFolder folder;
  ExampleStore example(folder.path() / "store");
  const Artifact artifact = compilable_artifact();
  example.add(artifact);
  const ChildOptions store = in_store(example.path());
  const ChildResult result = kernwright_program(show(artifact.key.hex(), {"--ptx"}), store);
  if (!nvrtc_present(result)) return;
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  CHECK_CONTAINS(result.out, ".target sm_90a");
  CHECK_CONTAINS(result.out, ".visible .entry scale(");
  CHECK_CONTAINS(result.out, "12345");
  CHECK_CONTAINS(result.err, "another compiler, nvrtc 13.0 (" + compiler_record_name(artifact.compiler).substr(0, 8) + ")");
  CHECK(json_of(kernwright_program(show(artifact.key.hex(), {"--ptx", "--json"}), store))["ptx"] == result.out);

  // The entry of the compiler that is here: nothing to note.
  Artifact own = artifact;
  const auto options = resolve_options(RuntimeOptions{});
  own.compiler = *make_cuda_backend(*options, Logger())->compiler().identity();
  own.key = entry_key(own.request, own.compiler);
  example.add(own);
  const ChildResult quiet = kernwright_program(show(own.key.hex(), {"--ptx"}), store);
  CHECK(quiet.exit_code == 0);
  CHECK_MESSAGE(quiet.err.empty(), quiet.err);
  CHECK(quiet.out == result.out);
}

TEST_CASE("cache show: without an NVRTC there is no PTX, and the error says where one was looked for") {
  const TemporaryFolder folder;
  ExampleStore example(folder.path() / "store");
  example.add(example_artifact());
  ChildOptions store = in_store(example.path());
  store.environment["KERNWRIGHT_NVRTC"] = "/nonexistent/libnvrtc.so";
  check_error(3, show(example_artifact().key.hex(), {"--ptx"}), {"/nonexistent/libnvrtc.so"}, store);
}

TEST_CASE("cache show: a host entry has neither PTX nor SASS, and says so") {
  const TemporaryFolder folder;
  ExampleStore example(folder.path() / "store");
  const Artifact artifact = host_artifact();
  example.add(artifact);
  const ChildOptions store = in_store(example.path());
  check_refused(show(artifact.key.hex(), {"--ptx"}), {"--ptx", "host", "neither PTX nor SASS"}, store);
  check_refused(show(artifact.key.hex(), {"--sass"}), {"--sass", "host", "neither PTX nor SASS"}, store);
  CHECK(kernwright_program(show(artifact.key.hex(), {"--source"}), store).exit_code == 0);
}

TEST_CASE("cache show: SASS is what nvdisasm says of the stored binary, and nothing stays behind") {
  const TemporaryFolder folder;
  ExampleStore example(folder.path() / "store");
  const Artifact artifact = example_artifact();
  const std::string key = artifact.key.hex();
  example.add(artifact);
  ChildOptions store = in_store(example.path());
  const fs::path temporary = folder.path() / "tmp";
  fs::create_directory(temporary);
  store.environment["TMPDIR"] = temporary.string();
  const fs::path wanted = folder.path() / "wanted";
  write_file(wanted, std::string_view(reinterpret_cast<const char*>(artifact.binary.data()), artifact.binary.size()));

  put_program(folder.path() / "bin", "[ $# = 2 ] && cmp -s \"$2\" '" + wanted.string() + "' && echo \"SASS by $1\"\n", store);
  const ChildResult result = kernwright_program(show(key, {"--sass"}), store);
  CHECK_MESSAGE(result.exit_code == 0, result.err);
  CHECK(result.out == "SASS by --print-code\n");
  CHECK(json_of(kernwright_program(show(key, {"--sass", "--json"}), store))["sass"] == result.out);
  // Longer than a pipe and than a log.
  put_program(folder.path() / "bin",
              "i=0; while [ $i -lt 40000 ]; do echo 'IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28] ; line'; i=$((i+1)); done\n", store);
  CHECK(kernwright_program(show(key, {"--sass"}), store).out.size() == 40'000 * 45);
  put_program(folder.path() / "bin", "echo 'nvdisasm fatal: unknown architecture' >&2; exit 5\n", store);
  check_error(3, show(key, {"--sass"}), {"exit code 5", "unknown architecture", "nvidia-cuda-nvdisasm"}, store);
  CHECK(fs::is_empty(temporary));
}

TEST_CASE("cache show: nvdisasm is found beside a toolkit and in Python's packages, and its absence says how to get it") {
  const TemporaryFolder folder;
  ExampleStore example(folder.path() / "store");
  const std::string key = example_artifact().key.hex();
  example.add(example_artifact());
  const auto options_without = [&] {
    ChildOptions options = in_store(example.path());
    options.environment["PATH"] = (folder.path() / "empty").string();
    for (const char* name : {"CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "PYTHONPATH", "VIRTUAL_ENV", "HOME"}) options.environment[name] = "";
    return options;
  };
  const auto put = [&](const fs::path& bin, const std::string& says) {
    write_file(bin / "nvdisasm", "#!/bin/sh\necho '" + says + "'\n");
    REQUIRE(::chmod((bin / "nvdisasm").c_str(), 0755) == 0);
  };
  put(folder.path() / "cuda" / "bin", "toolkit");
  put(folder.path() / "venv" / "lib" / "python3.11" / "site-packages" / "nvidia" / "cu13" / "bin", "python");
  ChildOptions toolkit = options_without();
  toolkit.environment["CUDA_HOME"] = (folder.path() / "cuda").string();
  CHECK(kernwright_program(show(key, {"--sass"}), toolkit).out == "toolkit\n");
  ChildOptions absent = options_without();
  const ChildResult result = kernwright_program(show(key, {"--sass"}), absent);
  if (result.exit_code == 0) {
    MESSAGE("skipped: this machine has an nvdisasm in one of the usual places");
    return;
  }
  CHECK(result.exit_code == 3);
  CHECK_CONTAINS(result.err, (folder.path() / "empty").string());
  CHECK_CONTAINS(result.err, "/usr/local/cuda/bin");
  CHECK_CONTAINS(result.err, "pip install nvidia-cuda-nvdisasm");
  ChildOptions python = options_without();
  python.environment["VIRTUAL_ENV"] = (folder.path() / "venv").string();
  CHECK(kernwright_program(show(key, {"--sass"}), python).out == "python\n");
}
