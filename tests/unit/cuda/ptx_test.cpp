#include "backend/cuda/ptx.hpp"

#include "nvrtc_fixture.hpp"
#include "prepare/options.hpp"

using namespace kernwright;
using namespace kernwright::testing;

namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

RuntimeOptions resolved() {
  auto options = resolve_options(RuntimeOptions{});
  REQUIRE(options.has_value());
  return *options;
}

}  // namespace

TEST_CASE("ptx: it is of the request's sources, target and options, and names the compiler that made it") {
  if (!nvrtc_present()) return;
  auto made = request("#include \"common/deep.cuh\"\nextern \"C\" __global__ void kernel(int* p) { p[0] = kAnswer; }\n");
  made.sources.push_back(
      {"common/deep.cuh", "#pragma once\n#ifdef OTHER\nconstexpr int kAnswer = 54321;\n#else\nconstexpr int kAnswer = 12345;\n#endif\n"});
  for (const char* name : {"sm_80", "sm_90a", "sm_120a"}) {
    CAPTURE(name);
    made.target = target(name);
    const auto ptx = make_ptx(resolved(), made);
    REQUIRE_MESSAGE(ptx.has_value(), ptx.error().message);
    CHECK(contains(ptx->text, std::string(".target ") + name));
    CHECK(contains(ptx->text, ".visible .entry kernel("));
    CHECK(contains(ptx->text, "12345"));
    CHECK(ptx->text.back() == '\n');
    CHECK(ptx->text.find('\0') == std::string::npos);
    CHECK(ptx->compiler == *make_compiler()->identity());
  }
  made.options = {"-DOTHER"};
  CHECK(contains(make_ptx(resolved(), made)->text, "54321"));
}

TEST_CASE("ptx: sources that do not compile are the error of a compile") {
  if (!nvrtc_present()) return;
  const auto ptx = make_ptx(resolved(), request("extern \"C\" __global__ void kernel(int* p) { p[0] = no_such_name; }\n"));
  REQUIRE_FALSE(ptx.has_value());
  CHECK(ptx.error().code == ErrorCode::compile_failed);
  CHECK(contains(ptx.error().message, "no_such_name"));
}

TEST_CASE("ptx: without an NVRTC the error says where it was looked for") {
  RuntimeOptions options = resolved();
  options.nvrtc = "/nonexistent/libnvrtc.so";
  const auto ptx = make_ptx(options, request(""));
  REQUIRE_FALSE(ptx.has_value());
  CHECK(ptx.error().code == ErrorCode::compiler_unavailable);
  CHECK(contains(ptx.error().message, "/nonexistent/libnvrtc.so"));
}
