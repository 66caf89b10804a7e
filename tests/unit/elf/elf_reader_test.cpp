#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "../cuda/nvrtc_fixture.hpp"
#include "elf/elf_file.hpp"
#include "elf/elf_reader.hpp"
#include "platform/file_system.hpp"

using namespace kernwright;
using namespace kernwright::testing;

namespace {

// Shared memory, a stack frame, registers: everything that the facts tell. `values` is indexed at run time, so it needs a frame.
constexpr const char* kFactsSource = R"(
struct Plan { int version, threads, dynamic_shared, rows_per_block, blocks_per_sm, cluster, programmatic_launch, params_bytes; };
extern "C" __constant__ const Plan kw_plan = {1, 128, 4096, 16, 0, 1, 0, 24};
extern "C" __constant__ const Plan kw_plans[3] = {{1, 1, 0, 0, 0, 1, 0, 8}, {1, 2, 0, 0, 0, 1, 0, 8}, {1, 3, 0, 0, 0, 1, 0, 8}};
extern "C" __global__ void other(int* p) { p[0] = kw_plan.threads + kw_plans[p[1]].threads; }
extern "C" __global__ void kernel(float* p, int n) {
  __shared__ float tile[300];
  float values[40];
  for (int i = 0; i < 40; ++i) values[i] = p[i * n];
  tile[threadIdx.x] = values[n];
  __syncthreads();
  values[n + 1] = tile[299 - threadIdx.x];
  for (int i = 0; i < 40; ++i) p[i] += values[i ^ n];
})";

std::vector<std::byte> facts_cubin(const std::string& target_name, std::string* log = nullptr) {
  auto compiler = make_compiler();
  auto output = compiler->compile(request(kFactsSource, target_name));
  REQUIRE_MESSAGE(output.has_value(), output.error().message);
  if (log != nullptr) *log = output->log;
  return output->binary;
}

// "Used 12 registers", of the report on `kernel`: the words of ptxas, read here without the code under test.
long report_number(const std::string& log, const char* entry, const char* unit) {
  const std::size_t start = log.find(std::string("Compiling entry function '") + entry + "'");
  REQUIRE(start != std::string::npos);
  const std::size_t next = log.find("Compiling entry function", start + 1);
  const std::string part = log.substr(start, next == std::string::npos ? next : next - start);
  const std::size_t end = part.find(unit);
  if (end == std::string::npos) return 0;
  const std::size_t space = part.find_last_not_of("0123456789", end - 1);
  return std::stol(part.substr(space + 1, end - space - 1));
}

}  // namespace

TEST_CASE("elf: registers, stack and static shared memory are those of ptxas, on every target") {
  if (!nvrtc_present()) return;
  for (const Target& each : Target::all_cuda()) {
    CAPTURE(each.name());
    std::string log;
    const auto cubin = facts_cubin(each.name(), &log);
    const auto facts = elf::kernel_facts(cubin, "kernel", each.capability());
    REQUIRE_MESSAGE(facts.has_value(), facts.error().message);
    CHECK(facts->registers == report_number(log, "kernel", " registers"));
    CHECK(static_cast<long>(facts->stack_frame) == report_number(log, "kernel", " bytes stack frame"));
    CHECK(static_cast<long>(facts->static_shared) == report_number(log, "kernel", " bytes smem"));
    CHECK(facts->static_shared == 1200);
    CHECK(facts->stack_frame >= 160);
    const auto other = elf::kernel_facts(cubin, "other", each.capability());
    REQUIRE(other.has_value());
    CHECK(other->registers == report_number(log, "other", " registers"));
    CHECK(other->static_shared == 0);
    CHECK(other->stack_frame == 0);
  }
}

TEST_CASE("elf: plans come out of a cubin as the source wrote them") {
  if (!nvrtc_present()) return;
  const auto cubin = facts_cubin("sm_80");
  const auto one = elf::plans(cubin, "kw_plan", 1);
  REQUIRE_MESSAGE(one.has_value(), one.error().message);
  CHECK(one->front() == Plan{1, 128, 4096, 16, 0, 1, 0, 24});
  const auto three = elf::plans(cubin, "kw_plans", 3);
  REQUIRE(three.has_value());
  CHECK((*three)[2] == Plan{1, 3, 0, 0, 0, 1, 0, 8});

  const auto wrong_count = elf::plans(cubin, "kw_plans", 2);
  REQUIRE_FALSE(wrong_count.has_value());
  CHECK(wrong_count.error().code == ErrorCode::load_failed);
  CHECK(wrong_count.error().message.find("96 bytes") != std::string::npos);
  const auto absent = elf::plans(cubin, "kw_nothing", 1);
  REQUIRE_FALSE(absent.has_value());
  CHECK(absent.error().code == ErrorCode::load_failed);
  // The largest count must not wrap into a match.
  CHECK_FALSE(elf::plans(cubin, "kw_plan", std::size_t{1} << 59).has_value());
}

TEST_CASE("elf: a plan of another version is refused") {
  if (!nvrtc_present()) return;
  auto cubin = facts_cubin("sm_80");
  const auto plan = elf::symbol(cubin, "kw_plan");
  REQUIRE(plan.has_value());
  cubin[static_cast<std::size_t>(plan->data() - cubin.data())] = std::byte{2};
  const auto read = elf::plans(cubin, "kw_plan", 1);
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().code == ErrorCode::load_failed);
  CHECK(read.error().message.find("version 2") != std::string::npos);
}

TEST_CASE("elf: a symbol or kernel that is not there is not_found, and a section that is not there has size 0") {
  if (!nvrtc_present()) return;
  const auto cubin = facts_cubin("sm_90a");
  CHECK(elf::symbol(cubin, "kw_pla").error().code == ErrorCode::not_found);
  CHECK(elf::symbol(cubin, "kw_planss").error().code == ErrorCode::not_found);
  CHECK(elf::kernel_facts(cubin, "kern", 90).error().code == ErrorCode::not_found);
  CHECK(elf::kernel_facts(cubin, "kw_plan", 90).error().code == ErrorCode::not_found);
  CHECK(elf::section_size(cubin, ".nv.shared.kernel").value() == 1200 + 1024);
  CHECK(elf::section_size(cubin, ".nv.shared.other").value() == 0);
}

TEST_CASE("elf: a cubin cut at any length, or with any byte damaged, answers or errs but never reads outside") {
  if (!nvrtc_present()) return;
  const auto whole = facts_cubin("sm_90a");
  const auto read_all = [](std::span<const std::byte> bytes) {
    (void)elf::plans(bytes, "kw_plan", 1);
    (void)elf::kernel_facts(bytes, "kernel", 90);
    (void)elf::section_size(bytes, ".nv.shared.kernel");
    (void)elf::build_id(bytes);
    (void)elf::soname(bytes);
  };
  const auto expected = elf::kernel_facts(whole, "kernel", 90);
  REQUIRE(expected.has_value());
  std::size_t readable = 0;
  // Each copy ends exactly where its allocation does, so that a sanitizer sees one byte too many.
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    // Only program headers, which nothing here reads, stand behind the section table: a cut that leaves the facts leaves them right.
    const auto facts = elf::kernel_facts(cut, "kernel", 90);
    readable += facts.has_value() ? 1 : 0;
    if (facts && (facts->registers != expected->registers || facts->static_shared != expected->static_shared))
      FAIL_CHECK("wrong at " << size);
    if (size % 16 == 0) read_all(cut);
  }
  CHECK(readable < 1024);
  auto damaged = whole;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const unsigned mask : {0xffU, 0x80U, 0x01U}) {
      damaged[at] = whole[at] ^ static_cast<std::byte>(mask);
      read_all(damaged);
    }
    damaged[at] = whole[at];
  }
  std::mt19937 random(7);  // NOLINT: a fixed seed keeps the test the same
  for (int round = 0; round < 2000; ++round) {
    auto noisy = whole;
    for (int i = 0; i < 8; ++i) {
      // Mostly into the headers, where the offsets are.
      const std::size_t range = round % 2 == 0 ? 64 : whole.size();
      noisy[random() % range] = static_cast<std::byte>(random());
    }
    read_all(noisy);
  }
}

TEST_CASE("elf: text, an empty file and a 32-bit file are malformed, with what came in the message") {
  const auto text = as_bytes(std::string_view("GROUP ( libnvrtc.so.13 )"));
  CHECK(elf::symbol(text, "x").error().code == ErrorCode::malformed);
  CHECK(elf::symbol({}, "x").error().code == ErrorCode::malformed);
  std::array<std::byte, 64> small{};
  std::memcpy(small.data(),
              "\x7f"
              "ELF\x01\x01",
              6);
  const auto refused = elf::symbol(small, "x");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("class 1") != std::string::npos);
}

TEST_CASE("elf: hostile section counts and offsets neither wrap nor allocate") {
  std::vector<std::byte> file(128);
  elf::FileHeader header{};
  std::memcpy(header.ident,
              "\x7f"
              "ELF\x02\x01",
              6);
  header.shentsize = 64;
  header.shoff = ~std::uint64_t{0} - 8;
  header.shnum = 3;
  std::memcpy(file.data(), &header, sizeof header);
  CHECK(elf::section_size(file, "x").error().code == ErrorCode::malformed);

  // The count from section 0, near 2^64 / 64.
  header.shoff = 64;
  header.shnum = 0;
  elf::SectionHeader first{};
  first.size = (std::uint64_t{1} << 58) + 1;
  std::memcpy(file.data(), &header, sizeof header);
  std::memcpy(file.data() + 64, &first, sizeof first);
  CHECK(elf::section_size(file, "x").error().code == ErrorCode::malformed);
}

// A host shared object with the same symbol, written by the assembler that built this program: the test program itself.
extern "C" __attribute__((visibility("default"), used)) const Plan kernwright_elf_test_plan{1, 77, 5, 4, 3, 2, 1, 9};

TEST_CASE("elf: a symbol of a linked host file is found through its virtual address") {
  const auto bytes = FileSystem::posix()->read("/proc/self/exe", mebibytes(1024));
  if (!bytes) {
    MESSAGE("skipped: the test program cannot read itself");
    return;
  }
  const auto plan = elf::plans(*bytes, "kernwright_elf_test_plan", 1);
  REQUIRE_MESSAGE(plan.has_value(), plan.error().message);
  CHECK(plan->front() == kernwright_elf_test_plan);
}
