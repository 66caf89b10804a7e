#include "nvrtc_fixture.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "elf/elf_reader.hpp"

using namespace kernwright;
using namespace kernwright::testing;

namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

constexpr const char* kScale = "extern \"C\" __global__ void kernel(float* p, int n) { if (threadIdx.x < n) p[threadIdx.x] *= 2; }\n";

}  // namespace

TEST_CASE("nvrtc: every target compiles, twice to the same bytes, with the target's own code") {
  if (!nvrtc_present()) return;
  auto compiler = make_compiler();
  std::vector<std::vector<std::byte>> seen;
  for (const Target& each : Target::all_cuda()) {
    CAPTURE(each.name());
    const auto first = compiler->compile(request(kScale, each.name()));
    REQUIRE_MESSAGE(first.has_value(), first.error().message);
    CHECK(first->log.find("for '" + each.name() + "'") != std::string::npos);
    CHECK(first->seconds > 0);
    const auto again = compiler->compile(request(kScale, each.name()));
    REQUIRE(again.has_value());
    CHECK(first->binary == again->binary);
    CHECK(std::find(seen.begin(), seen.end(), first->binary) == seen.end());
    seen.push_back(first->binary);
  }
}

TEST_CASE("nvrtc: sources include each other by virtual name, and nothing else") {
  if (!nvrtc_present()) return;
  auto compiler = make_compiler();
  auto made = request("#include \"common/deep.cuh\"\nextern \"C\" __global__ void kernel(int* p) { p[0] = deep::answer(); }\n");
  made.sources.push_back(
      {"common/deep.cuh", "#pragma once\n#include \"common/deeper.cuh\"\nnamespace deep { int answer() { return kAnswer; } }\n"});
  made.sources.push_back({"common/deeper.cuh", "#pragma once\ninline constexpr int kAnswer = 42;\n"});
  const auto output = compiler->compile(made);
  REQUIRE_MESSAGE(output.has_value(), output.error().message);

  made.sources.pop_back();
  const auto missing = compiler->compile(made);
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().code == ErrorCode::compile_failed);
  CHECK(contains(missing.error().message, "common/deeper.cuh"));
  CHECK(contains(missing.error().message, ">     2 | #include \"common/deeper.cuh\""));
}

TEST_CASE("nvrtc: a compile error quotes the source lines that it names, wherever they are") {
  if (!nvrtc_present()) return;
  auto compiler = make_compiler();
  auto made = request("#include \"common/lib.cuh\"\n\nextern \"C\" __global__ void kernel(int* p) {\n  p[0] = no_such_name;\n}\n");
  made.sources.push_back({"common/lib.cuh", "// one\n// two\ninline int broken() { return another_missing; }\n// four\n"});
  const auto output = compiler->compile(made);
  REQUIRE_FALSE(output.has_value());
  const Error& error = output.error();
  CHECK(error.code == ErrorCode::compile_failed);
  CHECK(contains(error.message, "test/kernel"));
  CHECK(contains(error.message, "sm_90a"));
  CHECK(contains(error.message, "test/kernel.cu:\n"));
  CHECK(contains(error.message, "      3 | extern"));
  CHECK(contains(error.message, ">     4 |   p[0] = no_such_name;"));
  CHECK(contains(error.message, "common/lib.cuh:\n"));
  CHECK(contains(error.message, ">     3 | inline int broken() { return another_missing; }"));
  CHECK(contains(error.message, "identifier \"no_such_name\" is undefined"));
}

TEST_CASE("nvrtc: ptxas's refusals for resources are does_not_fit, its other errors are not") {
  if (!nvrtc_present()) return;
  auto compiler = make_compiler();
  // 400,000 bytes, above every target's limit. The log has NUL bytes before this line.
  const auto shared = compiler->compile(request(
      "extern \"C\" __global__ void kernel(int* p) { __shared__ int x[100000]; x[threadIdx.x] = p[1]; __syncthreads(); p[0] = x[31]; }"));
  REQUIRE_FALSE(shared.has_value());
  CHECK(shared.error().code == ErrorCode::does_not_fit);
  CHECK(contains(shared.error().message, "uses too much shared data (0x61a80 bytes, 0x38c00 max)"));
  CHECK(shared.error().message.find('\0') == std::string::npos);

  const auto assembly = compiler->compile(request("extern \"C\" __global__ void kernel(int* p) { asm volatile(\"bogus.op;\"); }"));
  REQUIRE_FALSE(assembly.has_value());
  CHECK(assembly.error().code == ErrorCode::compile_failed);
  CHECK(contains(assembly.error().message, "bogus"));
}

TEST_CASE("nvrtc: resources are those of ptxas, spills included") {
  if (!nvrtc_present()) return;
  auto compiler = make_compiler();
  auto made = request(R"(extern "C" __global__ void __maxnreg__(24) kernel(float* p) {
  __shared__ float s[64];
  s[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  float a[24];
#pragma unroll
  for (int i = 0; i < 24; ++i) a[i] = p[i * threadIdx.x];
#pragma unroll
  for (int i = 0; i < 24; ++i)
#pragma unroll
    for (int j = 0; j < i; ++j) a[i] += a[j] * a[23 - j];
#pragma unroll
  for (int i = 0; i < 24; ++i) p[i] = a[i] + s[63 - threadIdx.x];
})");
  const auto output = compiler->compile(made);
  REQUIRE_MESSAGE(output.has_value(), output.error().message);
  const auto use = compiler->resources(made, output->binary, output->log);
  REQUIRE_MESSAGE(use.has_value(), use.error().message);
  CHECK(use->registers == 24);
  CHECK(use->static_shared == Bytes{256});
  CHECK(use->spill_stores.count > 0);
  CHECK(use->spill_loads.count > 0);
  CHECK(contains(output->log, std::to_string(use->spill_stores.count) + " bytes spill stores"));
  CHECK(contains(output->log, std::to_string(use->spill_loads.count) + " bytes spill loads"));
  CHECK(contains(output->log, std::to_string(use->stack_frame.count) + " bytes stack frame"));
}

TEST_CASE("nvrtc: a list of plans compiles without a kernel") {
  if (!nvrtc_present()) return;
  auto compiler = make_compiler();
  auto made =
      request("struct Plan { int v[8]; };\nextern \"C\" __constant__ const Plan kw_plans[2] = {{{1, 64}}, {{1, 128}}};\n", "sm_80", "");
  made.kind = ArtifactKind::plans;
  const auto output = compiler->compile(made);
  REQUIRE_MESSAGE(output.has_value(), output.error().message);
  const auto plans = elf::plans(output->binary, "kw_plans", 2);
  REQUIRE_MESSAGE(plans.has_value(), plans.error().message);
  CHECK((*plans)[0].threads == 64);
  CHECK((*plans)[1].threads == 128);
  CHECK(compiler->resources(made, output->binary, output->log).has_value());
}

TEST_CASE("nvrtc: a target that it does not know is unsupported, with its list") {
  if (!nvrtc_present()) return;
  auto compiler = make_compiler();
  for (const char* name : {"sm_150", "sm_150f", "sm_80a"}) {
    CAPTURE(name);
    const auto output = compiler->compile(request(kScale, name));
    REQUIRE_FALSE(output.has_value());
    CHECK(output.error().code == ErrorCode::unsupported);
    CHECK(contains(output.error().message, name));
    CHECK(contains(output.error().message, "sm_80"));
    CHECK(contains(output.error().message, "sm_120"));
  }
  auto host = request(kScale);
  host.target = Target::host();
  CHECK(compiler->compile(host).error().code == ErrorCode::unsupported);
  // The family target of a device newer than the table.
  CHECK(compiler->compile(request(kScale, "sm_100f")).has_value());
}

TEST_CASE("nvrtc: a source with a NUL byte is refused rather than cut") {
  if (!nvrtc_present()) return;
  auto compiler = make_compiler();
  const auto output = compiler->compile(request(std::string(kScale) + std::string("\0", 1) + "static_assert(false);"));
  REQUIRE_FALSE(output.has_value());
  CHECK(output.error().code == ErrorCode::compile_failed);
  CHECK(contains(output.error().message, "NUL"));
}

TEST_CASE("nvrtc: an option of the request reaches the compiler, and an unknown one is named") {
  if (!nvrtc_present()) return;
  auto compiler = make_compiler();
  auto made = request("#ifndef EXTRA\n#error without\n#endif\nextern \"C\" __global__ void kernel() {}\n");
  CHECK_FALSE(compiler->compile(made).has_value());
  made.options = {"-DEXTRA=1"};
  CHECK(compiler->compile(made).has_value());
  made.options = {"--no-such-option"};
  const auto refused = compiler->compile(made);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::compile_failed);
  CHECK(contains(refused.error().message, "--no-such-option"));
}

TEST_CASE("nvrtc: a compile beyond its time limit is cancelled and says so") {
  if (!nvrtc_present()) return;
  auto compiler = make_compiler(machine_search(), 0.2);
  // Some seconds' worth of work in many functions: NVRTC asks between its passes, so one huge function would be noticed late.
  std::string source;
  for (int i = 0; i < 2000; ++i) {
    const std::string n = std::to_string(i);
    source += "extern \"C\" __global__ void k" + n + "(float* p) { for (int j = 0; j < p[0]; ++j) p[j] = sinf(p[j + " + n +
              "]) / cosf(p[j]); }\n";
  }
  const auto started = std::chrono::steady_clock::now();
  const auto output = compiler->compile(request(source));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  REQUIRE_FALSE(output.has_value());
  CHECK(output.error().code == ErrorCode::timed_out);
  CHECK(contains(output.error().message, "compile_time_limit_seconds"));
  CHECK(seconds >= 0.2);
  CHECK(seconds < 60);
  MESSAGE("cancelled after " << seconds << " s");
}

TEST_CASE("nvrtc: threads may compile at once") {
  if (!nvrtc_present()) return;
  auto compiler = make_compiler();
  const auto expected = compiler->compile(request(kScale));
  REQUIRE(expected.has_value());
  std::vector<std::thread> threads;
  std::vector<bool> same(6, false);
  std::vector<char> results(6, 0);
  for (std::size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto output = compiler->compile(request(kScale));
      results[i] = output.has_value() && output->binary == expected->binary ? 1 : 0;
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(std::count(results.begin(), results.end(), 1) == 6);
}
