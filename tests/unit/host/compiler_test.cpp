// The compiler as a process: found, named, limited, quoted, cleaned up after.
#include <doctest/doctest.h>

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "backend/host/child_process.hpp"
#include "backend/host/compiler_search.hpp"
#include "backend/host/host_compiler.hpp"
#include "backend/host/sanitizers.hpp"
#include "backend/host/temporary_folder.hpp"
#include "elf/elf_reader.hpp"
#include "unit/host/host_fixture.hpp"

namespace kernwright::test {
namespace {

namespace fs = std::filesystem;

const std::string kNothing = R"(
struct Params { int n; };
extern "C" __global__ void entry(const __grid_constant__ Params p) { if (p.n == 0) return; }
)";

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A private TMPDIR for one test, so that what is left in it can be seen.
class TestFolder {
 public:
  TestFolder() : folder_(std::move(*host::TemporaryFolder::create())) {
    if (const char* const value = std::getenv("TMPDIR"); value != nullptr) before_ = value;
    setenv("TMPDIR", folder_.path().c_str(), 1);
  }
  ~TestFolder() {
    if (before_.empty()) {
      unsetenv("TMPDIR");
    } else {
      setenv("TMPDIR", before_.c_str(), 1);
    }
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  fs::path script(const std::string& name, const std::string& text) const {
    const fs::path path = folder_.path() / name;
    std::ofstream(path) << "#!/bin/sh\n" << text;
    chmod(path.c_str(), 0700);
    return path;
  }
  std::vector<std::string> folders_inside() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      if (entry.is_directory()) names.push_back(entry.path().filename());
    }
    return names;
  }
  const fs::path& path() const { return folder_.path(); }

 private:
  host::TemporaryFolder folder_;
  std::string before_;
};

Result<CompileOutput> compile(const RuntimeOptions& options, const BuildRequest& request) {
  return make_host_backend(options, {})->compiler().compile(request);
}

RuntimeOptions with_compiler(const fs::path& path) {
  RuntimeOptions options = host_options();
  options.host.compiler = path.string();
  return options;
}

TEST_CASE("host compiler: the identity names everything that decides the bytes") {
  const auto identity = [](HostMode mode) { return *make_host_backend(host_options(mode), {})->compiler().identity(); };
  const CompilerIdentity fibers = identity(HostMode::fibers);
  CHECK(fibers.name == "host");
  CHECK(!fibers.version.empty());
  CHECK(!has(fibers.version, "\n"));
  std::vector<std::string> names;
  for (const auto& [name, value] : fibers.components) {
    names.push_back(name);
    CHECK(!value.empty());
    CHECK(!has(value, "/"));  // no path
    if (name == "flags") CHECK(!has(value, "native"));
  }
  CHECK((names == std::vector<std::string>{"compiler", "simt", "flags", "mode", "sanitizer"}));
  CHECK((identity(HostMode::fibers) == fibers));
  CHECK((identity(HostMode::threads) != fibers));
  CHECK((identity(HostMode::fibers_asan) != identity(HostMode::threads)));
  const auto sanitizer = [&](HostMode mode) { return identity(mode).components.back().second; };
  CHECK(sanitizer(HostMode::fibers) == "none");
  CHECK(sanitizer(HostMode::fibers_asan) == (host::kBuiltWithAsan ? "address" : "none"));
  CHECK(sanitizer(HostMode::threads) == (host::kBuiltWithTsan ? "thread" : "none"));
}

TEST_CASE("host compiler: another file under the same name and version is another compiler") {
  const TestFolder folder;
  const auto hash = [&](const std::string& text) {
    const auto found = host::find_compiler(folder.script("cc", text).string(), 10);
    REQUIRE(found);
    CHECK(found->version == "cc 1.0");
    return found->content_hash;
  };
  CHECK(hash("echo cc 1.0\n") != hash("echo cc 1.0 # patched\n"));
}

TEST_CASE("host compiler: one that does not exist is named, with the places looked at") {
  for (const std::string name : {"no-such-compiler-anywhere", "/no/such/compiler"}) {
    const auto identity = make_host_backend(with_compiler(name), {})->compiler().identity();
    REQUIRE_FALSE(identity);
    CHECK(identity.error().code == ErrorCode::compiler_unavailable);
    CHECK(has(identity.error().message, name));
    CHECK(has(identity.error().message, "host.compiler"));
    const auto output = compile(with_compiler(name), kernel_request(kNothing));
    REQUIRE_FALSE(output);
    CHECK(output.error().code == ErrorCode::compiler_unavailable);
  }
}

TEST_CASE("host compiler: one that cannot be run, or says nothing") {
  const TestFolder folder;
  const auto code = [](const fs::path& path) {
    const auto found = host::find_compiler(path.string(), 10);
    return found ? ErrorCode::internal : found.error().code;
  };
  CHECK(code(folder.script("fails", "exit 3\n")) == ErrorCode::compiler_unavailable);
  CHECK(code(folder.script("silent", "exit 0\n")) == ErrorCode::compiler_unavailable);
  CHECK(code(folder.path()) == ErrorCode::compiler_unavailable);
}

TEST_CASE("host compiler: errors come in the compiler's words with virtual names") {
  const TestFolder folder;
  BuildRequest request =
      kernel_request("#include \"family/part.cuh\"\nextern \"C\" __global__ void entry() { helper(); }\n", "family/kernel.cu");
  request.sources.push_back({"family/part.cuh", "inline void helper() {\n  undeclared_name = 3;\n}\n"});
  const auto output = compile(host_options(), request);
  REQUIRE_FALSE(output);
  CHECK(output.error().code == ErrorCode::compile_failed);
  const std::string& words = output.error().message;
  CAPTURE(words);
  CHECK(has(words, "family/part.cuh:2"));
  CHECK(has(words, "undeclared_name"));
  CHECK(!has(words, "./family"));
  CHECK(!has(words, folder.path().string()));
  CHECK(folder.folders_inside().empty());
}

TEST_CASE("host compiler: the temporary folder is private and gone afterwards") {
  const TestFolder folder;
  const fs::path mode = folder.path() / "mode";
  const fs::path spy = folder.script("spy", "[ \"$1\" = --version ] && echo spy 1 && exit 0\nstat -c %a . > " + mode.string() +
                                                "\nls kernwright/simt > /dev/null && exec g++ \"$@\"\n");
  const auto output = compile(with_compiler(spy), kernel_request(kNothing));
  if (host::kBuiltWithAsan || host::kBuiltWithTsan) {
    MESSAGE("built with a sanitizer: objects of mode fibers have none");
  }
  REQUIRE_MESSAGE(output.has_value(), (output ? "" : output.error().message));
  CHECK(output->seconds > 0);
  std::string permissions;
  std::ifstream(mode) >> permissions;
  CHECK(permissions == "700");
  CHECK(folder.folders_inside().empty());
}

TEST_CASE("host compiler: a compiler that hangs is stopped with all that it started") {
  const TestFolder folder;
  const fs::path pid = folder.path() / "pid";
  const fs::path slow = folder.script(
      "slow", "[ \"$1\" = --version ] && echo slow 1 && exit 0\necho thinking\nsleep 300 &\necho $! > " + pid.string() + "\nwait\n");
  RuntimeOptions options = with_compiler(slow);
  options.host.compile_time_limit_seconds = 0.5;
  const auto start = std::chrono::steady_clock::now();
  const auto output = compile(options, kernel_request(kNothing));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  REQUIRE_FALSE(output);
  CHECK(output.error().code == ErrorCode::timed_out);
  CHECK(has(output.error().message, "0.5 s"));
  CHECK(has(output.error().message, "thinking"));
  CHECK(seconds >= 0.5);
  CHECK(seconds < 30);
  CHECK(folder.folders_inside().empty());
  std::string started;
  std::ifstream(pid) >> started;
  REQUIRE(!started.empty());
  const auto runs = [&] {  // a zombie that nobody reaps has ended as well
    std::ifstream status("/proc/" + started + "/stat");
    const std::string text((std::istreambuf_iterator<char>(status)), std::istreambuf_iterator<char>());
    return !text.empty() && !has(text, ") Z ");
  };
  for (int i = 0; i < 100 && runs(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(runs());
}

TEST_CASE("host compiler: more words than a pipe holds neither block it nor fill the memory") {
  const TestFolder folder;
  const fs::path talker = folder.script(
      "talker", "[ \"$1\" = --version ] && echo talker 1 && exit 0\nhead -c 3000000 /dev/zero | tr '\\0' x\necho the end >&2\nexit 1\n");
  const auto output = compile(with_compiler(talker), kernel_request(kNothing));
  REQUIRE_FALSE(output);
  CHECK(output.error().code == ErrorCode::compile_failed);
  CHECK(output.error().message.size() > 1'000'000);
  CHECK(output.error().message.size() < 1'100'000);
  CHECK(has(output.error().message, "left out"));
}

TEST_CASE("host compiler: a compiler that succeeds without an object, or dies") {
  const TestFolder folder;
  const auto message = [&](const std::string& name, const std::string& rest) {
    const auto output =
        compile(with_compiler(folder.script(name, "[ \"$1\" = --version ] && echo odd 1 && exit 0\n" + rest)), kernel_request(kNothing));
    REQUIRE_FALSE(output);
    return output.error().message;
  };
  CHECK(has(message("idle", "exit 0\n"), "no object"));
  CHECK(has(message("dies", "kill -9 $$\n"), "137"));
  CHECK(folder.folders_inside().empty());
}

TEST_CASE("host compiler: nothing is written where TMPDIR cannot be") {
  const TestFolder folder;
  setenv("TMPDIR", "/no/such/folder", 1);
  const auto output = compile(host_options(), kernel_request(kNothing));
  REQUIRE_FALSE(output);
  CHECK(output.error().code == ErrorCode::io);
  CHECK(has(output.error().message, "/no/such/folder"));
  CHECK(has(output.error().message, "TMPDIR"));
}

TEST_CASE("host compiler: source names and entries that would escape are refused") {
  const auto code = [](BuildRequest request) {
    const auto output = compile(host_options(), request);
    return output ? ErrorCode::internal : output.error().code;
  };
  for (const char* const name : {"", "/etc/kernel.cu", "../kernel.cu", "a/../../kernel.cu", "a\"b.cu", "a\nb.cu", "folder/"}) {
    CAPTURE(name);
    CHECK(code(kernel_request(kNothing, name)) == ErrorCode::invalid_argument);
  }
  BuildRequest request = kernel_request(kNothing);
  request.entry = "entry); int x = (0";
  CHECK(code(request) == ErrorCode::invalid_argument);
  request = kernel_request(kNothing);
  request.sources.clear();
  CHECK(code(request) == ErrorCode::invalid_argument);
  request = kernel_request(kNothing);
  request.target = *Target::parse("sm_80");
  CHECK(code(request) == ErrorCode::invalid_argument);
}

TEST_CASE("host compiler: plans compile without a kernel and can be read from the object") {
  BuildRequest request;
  request.kind = ArtifactKind::plans;
  request.sources.push_back({"kernwright/plans.cu",
                             "#include \"common/plan.cuh\"\n"
                             "constexpr kw::Plan plan(int threads) { kw::Plan p; p.threads = threads; p.params_bytes = 8; return p; }\n"
                             "extern \"C\" __constant__ const kw::Plan kw_plans[2] = {plan(64), plan(0)};\n"});
  request.sources.push_back(
      {"common/plan.cuh",
       "#pragma once\nnamespace kw { struct Plan { int version = 1, threads = 0, dynamic_shared = 0, rows_per_block = 0, "
       "blocks_per_sm = 0, cluster = 1, programmatic_launch = 0, params_bytes = 0; }; }\n"});
  for (const HostMode mode : kAllModes) {
    const auto output = compile(host_options(mode), request);
    REQUIRE_MESSAGE(output.has_value(), (output ? "" : output.error().message));
    const auto plans = elf::plans(output->binary, "kw_plans", 2);
    REQUIRE(plans);
    CHECK(plans->at(0).threads == 64);
    CHECK(plans->at(0).params_bytes == 8);
    CHECK(plans->at(1).threads == 0);
  }
}

TEST_CASE("host compiler: the same request gives the same bytes and no path of the machine") {
  const TestFolder folder;
  const auto one = compile(host_options(), kernel_request(kNothing));
  const auto two = compile(host_options(), kernel_request(kNothing));
  REQUIRE(one);
  REQUIRE(two);
  CHECK((one->binary == two->binary));
  const std::string text(reinterpret_cast<const char*>(one->binary.data()), one->binary.size());
  CHECK(!has(text, folder.path().string()));
}

TEST_CASE("host compiler: static shared memory is known in mode fibers") {
  const std::string source = R"(
struct Params { int* out; };
extern "C" __global__ void entry(const __grid_constant__ Params p) {
  __shared__ int s[1000];
  if (p.out == nullptr) return;
  s[threadIdx.x] = 1;
  __syncthreads();
  p.out[0] = s[threadIdx.x ^ 1];
})";
  const auto bytes = [&](HostMode mode, const std::string& text) {
    const auto backend = make_host_backend(host_options(mode), {});
    const auto output = backend->compiler().compile(kernel_request(text));
    REQUIRE(output);
    const auto use = backend->compiler().resources(kernel_request(text), output->binary, output->log);
    REQUIRE(use);
    CHECK(use->registers == 0);
    return use->static_shared.count;
  };
  CHECK(bytes(HostMode::fibers, source) >= 4000);
  CHECK(bytes(HostMode::fibers, source) < 4064);
  CHECK(bytes(HostMode::fibers, kNothing) == 0);
  CHECK(bytes(HostMode::threads, source) == 0);
}

TEST_CASE("host compiler: options of the request reach the compiler") {
  BuildRequest request = kernel_request("#ifndef WANTED\n#error not defined\n#endif\n" + kNothing);
  CHECK_FALSE(compile(host_options(), request));
  request.options = {"-DWANTED"};
  CHECK(compile(host_options(), request));
}

}  // namespace
}  // namespace kernwright::test
