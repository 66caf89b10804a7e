// Faults that a sanitizer finds. Each is committed by a hidden test case in a child process of this program, which is expected to end
// with the sanitizer's report; its twin without the fault has to end well.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "backend/host/child_process.hpp"
#include "backend/host/sanitizers.hpp"
#include "unit/host/host_fixture.hpp"

namespace kernwright::test {
namespace {

struct Params {
  int* out;
  int extra;
};

host::ChildOutcome run_hidden(const std::string& test_case) {
  host::ChildCommand command;
  command.program = std::filesystem::read_symlink("/proc/self/exe");
  command.arguments = {command.program.string(), "--test-case=" + test_case, "--no-skip"};
  for (const char* const name : {"PATH", "HOME", "TMPDIR", "CXX"}) {
    if (const char* const value = std::getenv(name); value != nullptr) command.environment.push_back(std::string(name) + "=" + value);
  }
  command.environment.emplace_back("ASAN_OPTIONS=detect_stack_use_after_return=1:abort_on_error=0:exitcode=77");
  command.environment.emplace_back("TSAN_OPTIONS=exitcode=77");
  command.folder = std::filesystem::current_path();
  command.time_limit_seconds = 120;
  auto outcome = host::run_child(command);
  REQUIRE_MESSAGE(outcome.has_value(), (outcome ? "" : outcome.error().message));
  return *outcome;
}

void check_child(const std::string& test_case, const std::string& report) {
  const host::ChildOutcome outcome = run_hidden(test_case);
  CAPTURE(test_case);
  CAPTURE(outcome.output);
  if (report.empty()) {
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.output.find("1 passed") != std::string::npos);
    CHECK(outcome.output.find("Sanitizer") == std::string::npos);
  } else {
    CHECK(outcome.exit_code != 0);
    CHECK(outcome.output.find(report) != std::string::npos);
  }
}

void write_past(bool dynamic, int extra) {
  const std::string source = R"(
struct Params { int* out; int extra; };
extern "C" __global__ void entry(const __grid_constant__ Params p) {
  __shared__ char fixed[100];
  if (p.out == nullptr) return;
  char* const s = DYNAMIC ? static_cast<char*>(kw::simt::dynamic_shared()) : fixed;
  __syncthreads();
  for (int i = threadIdx.x; i < 100 + p.extra; i += 32) s[i] = 1;
  __syncthreads();
  int sum = 0;
  for (int i = 0; i < 100; ++i) sum += s[i];
  p.out[threadIdx.x] = sum;
})";
  std::string text = source;
  text.replace(text.find("DYNAMIC"), 7, dynamic ? "true" : "false");
  const TestKernel kernel = make_kernel(host_options(HostMode::fibers_asan), text, 32, sizeof(Params), 100);
  std::vector<int> out(32);
  REQUIRE(kernel.launch({2, 1, 1}, Params{out.data(), extra}) == 0);
  CHECK((out == std::vector<int>(32, 100)));
}

TEST_CASE("host child: a write inside dynamic shared memory" * doctest::skip()) {
  write_past(true, 0);
}
TEST_CASE("host child: a write past dynamic shared memory" * doctest::skip()) {
  write_past(true, 1);
}
TEST_CASE("host child: a write inside static shared memory" * doctest::skip()) {
  write_past(false, 0);
}
TEST_CASE("host child: a write past static shared memory" * doctest::skip()) {
  write_past(false, 1);
}

TEST_CASE("host: AddressSanitizer sees the first byte past shared memory") {
  if (!host::kBuiltWithAsan) {
    MESSAGE("skipped: this build has no AddressSanitizer (preset asan)");
    return;
  }
  check_child("host child: a write inside dynamic shared memory", "");
  check_child("host child: a write past dynamic shared memory", "heap-buffer-overflow");
  check_child("host child: a write inside static shared memory", "");
  check_child("host child: a write past static shared memory", "global-buffer-overflow");
}

void exchange_through_shared(const std::string& barrier, bool dynamic) {
  const std::string source = R"(
struct Params { int* out; int extra; };
extern "C" __global__ void entry(const __grid_constant__ Params p) {
  __shared__ int fixed[64];
  if (p.out == nullptr) return;
  int* const s = DYNAMIC ? static_cast<int*>(kw::simt::dynamic_shared()) : fixed;
  s[threadIdx.x] = threadIdx.x;
  BARRIER
  p.out[threadIdx.x] = s[63 - threadIdx.x];
})";
  std::string text = source;
  text.replace(text.find("DYNAMIC"), 7, dynamic ? "true" : "false");
  text.replace(text.find("BARRIER"), 7, barrier);
  const TestKernel kernel = make_kernel(host_options(HostMode::threads), text, 64, sizeof(Params), 256);
  std::vector<int> out(64);
  REQUIRE(kernel.launch({3, 1, 1}, Params{out.data(), 0}) == 0);
}

TEST_CASE("host child: a barrier orders dynamic shared memory" * doctest::skip()) {
  exchange_through_shared("__syncthreads();", true);
}
TEST_CASE("host child: a barrier orders static shared memory" * doctest::skip()) {
  exchange_through_shared("__syncthreads();", false);
}
TEST_CASE("host child: no barrier at dynamic shared memory" * doctest::skip()) {
  exchange_through_shared("", true);
}
TEST_CASE("host child: no barrier at static shared memory" * doctest::skip()) {
  exchange_through_shared("", false);
}
TEST_CASE("host child: a warp barrier between warps" * doctest::skip()) {
  exchange_through_shared("__syncwarp();", true);
}

TEST_CASE("host: ThreadSanitizer sees a missing barrier in mode threads") {
  if (!host::kBuiltWithTsan) {
    MESSAGE("skipped: this build has no ThreadSanitizer (preset tsan)");
    return;
  }
  check_child("host child: a barrier orders dynamic shared memory", "");
  check_child("host child: a barrier orders static shared memory", "");
  check_child("host child: no barrier at dynamic shared memory", "ThreadSanitizer: data race");
  check_child("host child: no barrier at static shared memory", "ThreadSanitizer: data race");
  check_child("host child: a warp barrier between warps", "ThreadSanitizer: data race");
}

}  // namespace
}  // namespace kernwright::test
