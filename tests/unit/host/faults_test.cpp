// Kernels that are wrong have to be found, named and left, and the next launch has to work.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "unit/host/host_fixture.hpp"

namespace kernwright::test {
namespace {

struct Params {
  int* out;
  int how;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// `how` 0 of every kernel here is right and writes 1 to out[0].
struct Fault {
  int how;
  std::vector<std::string> words;  // of the diagnosis; "@X" stands for the place of the line marked X
};

void check_faults(const std::string& source, int threads, const std::vector<Fault>& faults, Grid grid = {3, 1, 1}) {
  for (const HostMode mode : kAllModes) {
    CAPTURE(to_string(mode));
    const TestKernel kernel = make_kernel(host_options(mode), source, threads, sizeof(Params), 256);
    for (const Fault& fault : faults) {
      CAPTURE(fault.how);
      for (int round = 0; round < 2; ++round) {
        int out = 0;
        const std::string words = kernel.failure(grid, Params{&out, fault.how});
        CAPTURE(words);
        CHECK(has(words, "the test's kernel: "));
        for (const std::string& part : fault.words) {
          CAPTURE(part);
          CHECK(has(words, part.front() == '@' ? place_of(source, "// " + part.substr(1) + "\n") : part));
        }
        CHECK(kernel.failure(grid, Params{&out, 0}).empty());
        CHECK(out == 1);
      }
    }
  }
}

TEST_CASE("host: a divergent barrier is diagnosed, not waited for") {
  check_faults(
      R"(
struct Params { int* out; int how; };
extern "C" __global__ void entry(const __grid_constant__ Params p) {
  const int t = threadIdx.x;
  if (p.out == nullptr) return;
  if (p.how == 1 && t >= 64 && blockIdx.x == 1) return;
  if (p.how == 2 && t >= 64) {
    __syncthreads();  // A
  } else {
    __syncthreads();  // B
  }
  if (p.how == 3 && t < 5) kw::simt::block_barrier(2, 64);  // C
  if (p.how == 4) kw::simt::block_barrier(3, t < 32 ? 64 : 96);  // D
  if (p.how == 5) kw::simt::block_barrier(16, 128);  // E
  if (p.how == 6) kw::simt::block_barrier(1, 33);  // F
  if (p.how == 7) kw::simt::block_barrier(1, 160);  // G
  __syncthreads();  // H
  if (t == 0) p.out[0] = 1;
})",
      128,
      {{1, {"divergent barrier", "block (1, 0, 0) of 128 threads", "threads 0-63 wait at barrier 0", "threads 64-127 have returned", "@B"}},
       {2, {"divergent barrier", "@A", "@B"}},
       {3, {"divergent barrier", "threads 0-4 wait at barrier 2 for 64 threads", "@C", "threads 5-127 wait at barrier 0", "@H"}},
       {4, {"divergent barrier", "barrier 3", "64 threads", "96 threads", "@D"}},
       {5, {"illegal barrier", "barrier 16", "@E"}},
       {6, {"illegal barrier", "33 threads", "@F"}},
       {7, {"illegal barrier", "160 threads", "@G"}}});
}

TEST_CASE("host: a warp collective that a lane never joins is diagnosed") {
  check_faults(R"(
struct Params { int* out; int how; };
using kw::simt::warp_exchange;
extern "C" __global__ void entry(const __grid_constant__ Params p) {
  const int t = threadIdx.x;
  if (p.out == nullptr) return;
  if (p.how == 1 && t == 37) return;
  int sum = warp_exchange(t)[0];  // A
  if (p.how == 2 && t == 40) {
    kw::simt::block_barrier(5, 64);  // B
  }
  sum += warp_exchange(t)[0];  // C
  if (p.how == 3) sum += warp_exchange(t, 0xfffffffeu)[1];  // D
  if (p.how == 4) {
    if (t == 3) sum += warp_exchange(t)[1];  // E
    else sum += warp_exchange(t)[1];  // F
  }
  if (p.how == 5 && t == 9) __syncwarp();  // G
  __syncthreads();  // H
  if (t == 0) p.out[0] = 1 + 0 * sum;
})",
               64,
               {{1, {"divergent", "thread 37 has returned", "threads 32-36, 38-63 wait in a warp collective of lanes 0-31", "@A"}},
                {2, {"divergent barrier", "thread 40 waits at barrier 5 for 64 threads", "@B", "@C", "@H"}},
                {3, {"illegal warp collective", "lane 0", "lanes 1-31", "@D"}},
                {4, {"divergent warp collective", "@E", "@F"}},
                {5, {"thread 9 waits in a warp collective", "@G", "@H"}}});
}

TEST_CASE("host: faults of a single thread on the caller's stack") {
  check_faults(R"(
struct Params { int* out; int how; };
extern "C" __global__ void entry(const __grid_constant__ Params p) {
  if (p.out == nullptr) return;
  if (p.how == 1) kw::simt::block_barrier(1, 32);  // A
  if (p.how == 2) kw::simt::warp_exchange(1, 2u);  // B
  if (p.how == 3) kw::simt::async_copy(kw::simt::dynamic_shared(), p.out, 12, 12);  // C
  kw::simt::block_barrier(3, 1);
  __syncthreads();
  __syncwarp();
  p.out[0] = kw::simt::warp_exchange(1)[0];
})",
               1,
               {{1, {"illegal barrier", "32 threads", "@A"}},
                {2, {"illegal warp collective", "@B"}},
                {3, {"illegal cp.async", "12 bytes", "copies 4, 8 or 16 bytes", "@C"}}},
               {1, 1, 1});
}

TEST_CASE("host: a missing __syncthreads shows under at least one of several seeds") {
  struct Pointers {
    int* out;
  };
  const auto wrong_seeds = [](const std::string& barrier) {
    const std::string source = R"(
struct Params { int* out; };
extern "C" __global__ void entry(const __grid_constant__ Params p) {
  int* const s = static_cast<int*>(kw::simt::dynamic_shared());
  if (p.out == nullptr) return;
  const int t = threadIdx.x;
  s[t] = t;
  __syncthreads();
  const int seen = s[63 - t];
  )" + barrier + R"(
  s[t] = 1000 + seen;
  __syncthreads();
  p.out[t] = s[t];
})";
    int wrong = 0;
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const TestKernel kernel = make_kernel(host_options(HostMode::fibers, seed), source, 64, sizeof(Pointers), 256);
      std::vector<int> out(64);
      REQUIRE(kernel.launch({1, 1, 1}, Pointers{out.data()}) == 0);
      bool right = true;
      for (int t = 0; t < 64; ++t) right = right && out[static_cast<std::size_t>(t)] == 1000 + 63 - t;
      wrong += right ? 0 : 1;
    }
    return wrong;
  };
  CHECK(wrong_seeds("__syncthreads();") == 0);
  CHECK(wrong_seeds("") > 0);
}

TEST_CASE("host: the seed decides the order of threads and nothing else does") {
  struct Pointers {
    int* order;
    int* count;
  };
  const std::string source = R"(
struct Params { int* order; int* count; };
extern "C" __global__ void entry(const __grid_constant__ Params p) {
  if (p.order == nullptr) return;
  for (int round = 0; round < 3; ++round) {
    p.order[(*p.count)++] = threadIdx.x;
    __syncthreads();
  }
})";
  const auto order = [&](std::uint64_t seed) {
    const TestKernel kernel = make_kernel(host_options(HostMode::fibers, seed, 1), source, 64, sizeof(Pointers));
    std::vector<int> list(192, -1);
    int count = 0;
    REQUIRE(kernel.launch({1, 1, 1}, Pointers{list.data(), &count}) == 0);
    CHECK(count == 192);
    return list;
  };
  CHECK((order(1) == order(1)));
  CHECK((order(1) != order(2)));
  const std::vector<int> list = order(3);
  CHECK((std::vector<int>(list.begin(), list.begin() + 64) != std::vector<int>(list.begin() + 64, list.begin() + 128)));
}

TEST_CASE("host: a missing cp.async wait reads what was there before") {
  struct Pointers {
    const int* in;
    int* out;
  };
  const std::string source = R"(
struct Params { const int* in; int* out; };
extern "C" __global__ void entry(const __grid_constant__ Params p) {
  int* const s = static_cast<int*>(kw::simt::dynamic_shared());
  if (p.in == nullptr) return;
  kw::simt::async_copy(s + threadIdx.x * 4, p.in + threadIdx.x * 4, 16, 16);
  kw::simt::async_commit();
  WAIT
  __syncthreads();
  p.out[threadIdx.x] = s[threadIdx.x];
})";
  for (const HostMode mode : kAllModes) {
    CAPTURE(to_string(mode));
    for (const bool waits : {true, false}) {
      std::string text = source;
      text.replace(text.find("WAIT"), 4, waits ? "kw::simt::async_wait(0);" : "");
      const TestKernel kernel = make_kernel(host_options(mode), text, 32, sizeof(Pointers), 512);
      std::vector<int> in(128, 5), out(32, 0);
      REQUIRE(kernel.launch({1, 1, 1}, Pointers{in.data(), out.data()}) == 0);
      CHECK((out == std::vector<int>(32, waits ? 5 : -1)));
    }
  }
}

}  // namespace
}  // namespace kernwright::test
