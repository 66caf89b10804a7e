// Kernels that are right have to come out right, in every mode.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "unit/host/host_fixture.hpp"

namespace kernwright::test {
namespace {

template <class Test>
void in_every_mode(Test test) {
  for (const HostMode mode : kAllModes) {
    CAPTURE(to_string(mode));
    test(host_options(mode));
  }
}

TEST_CASE("host: a vector addition over several blocks") {
  struct Params {
    const float* a;
    const float* b;
    float* sum;
    int n;
  };
  const std::string source = R"(
struct Params { const float* a; const float* b; float* sum; int n; };
extern "C" __global__ void __launch_bounds__(64) entry(const __grid_constant__ Params p) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < p.n) p.sum[i] = p.a[i] + p.b[i];
})";
  in_every_mode([&](const RuntimeOptions& options) {
    const TestKernel kernel = make_kernel(options, source, 64, sizeof(Params));
    CHECK(kernel.loaded->fit(kernel.plan));
    constexpr int n = 1000;
    std::vector<float> a(n), b(n), sum(n + 8, -1.0F);
    for (std::size_t i = 0; i < n; ++i) {
      a[i] = static_cast<float>(i);
      b[i] = static_cast<float>(3 * i) + 0.5F;
    }
    REQUIRE(kernel.launch({16, 1, 1}, Params{a.data(), b.data(), sum.data(), n}) == 0);
    for (std::size_t i = 0; i < n; ++i) REQUIRE(sum[i] == static_cast<float>(4 * i) + 0.5F);
    CHECK(sum[n] == -1.0F);
  });
}

TEST_CASE("host: the grid's three dimensions, each block once") {
  struct Params {
    int* hits;
  };
  const std::string source = R"(
struct Params { int* hits; };
extern "C" __global__ void entry(const __grid_constant__ Params p) {
  if (threadIdx.x != 0) return;
  if (gridDim.x != 5 || gridDim.y != 3 || gridDim.z != 2 || blockDim.x != 32 || blockDim.y != 1 || threadIdx.y != 0) return;
  p.hits[blockIdx.x + 10 * blockIdx.y + 100 * blockIdx.z] += 1;
})";
  in_every_mode([&](const RuntimeOptions& options) {
    const TestKernel kernel = make_kernel(options, source, 32, sizeof(Params));
    std::vector<int> hits(200, 0);
    REQUIRE(kernel.launch({5, 3, 2}, Params{hits.data()}) == 0);
    for (int z = 0; z < 2; ++z) {
      for (int y = 0; y < 10; ++y) {
        for (int x = 0; x < 10; ++x) CHECK(hits[static_cast<std::size_t>(x + 10 * y + 100 * z)] == (x < 5 && y < 3 ? 1 : 0));
      }
    }
  });
}

TEST_CASE("host: a block reduction through dynamic and static shared memory") {
  struct Params {
    const int* in;
    int* out;
  };
  const std::string source = R"(
struct Params { const int* in; int* out; };
extern "C" __global__ void entry(const __grid_constant__ Params p) {
  int* const values = static_cast<int*>(kw::simt::dynamic_shared());
  __shared__ int first[1];
  if (p.in == nullptr) return;
  const int t = threadIdx.x;
  values[t] = p.in[blockIdx.x * 128 + t];
  if (t == 77) first[0] = kw::simt::dynamic_shared_bytes();
  for (int half = 64; half > 0; half /= 2) {
    __syncthreads();
    if (t < half) values[t] += values[t + half];
  }
  if (t == 0) p.out[blockIdx.x] = values[0] + first[0];
})";
  in_every_mode([&](const RuntimeOptions& options) {
    const TestKernel kernel = make_kernel(options, source, 128, sizeof(Params), 512);
    CHECK(kernel.loaded->fit(kernel.plan));
    std::vector<int> in(20 * 128), out(20);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<int>(i * i % 1009);
    REQUIRE(kernel.launch({20, 1, 1}, Params{in.data(), out.data()}) == 0);
    for (std::size_t block = 0; block < 20; ++block) {
      const auto start = in.begin() + static_cast<std::ptrdiff_t>(block * 128);
      CHECK(out[block] == std::accumulate(start, start + 128, 512));
    }
  });
}

TEST_CASE("host: dynamic shared memory is aligned and starts as NaN in every block") {
  struct Params {
    int* bad;
  };
  const std::string source = R"(
struct Params { int* bad; };
extern "C" __global__ void entry(const __grid_constant__ Params p) {
  unsigned char* const bytes = static_cast<unsigned char*>(kw::simt::dynamic_shared());
  if (p.bad == nullptr) return;
  int bad = reinterpret_cast<unsigned long>(bytes) % 1024 != 0;
  for (unsigned i = threadIdx.x; i < 3000; i += 32) bad += bytes[i] != 0xFF;
  for (unsigned i = threadIdx.x; i < 3000; i += 32) bytes[i] = 7;
  p.bad[blockIdx.x * 32 + threadIdx.x] = bad;
})";
  in_every_mode([&](const RuntimeOptions& options) {
    const TestKernel kernel = make_kernel(options, source, 32, sizeof(Params), 3000);
    std::vector<int> bad(6 * 32, -1);
    REQUIRE(kernel.launch({6, 1, 1}, Params{bad.data()}) == 0);
    CHECK(std::all_of(bad.begin(), bad.end(), [](int count) { return count == 0; }));
  });
}

TEST_CASE("host: warp collectives of whole and of part warps") {
  struct Params {
    int* out;
  };
  const std::string source = R"(
struct Params { int* out; };
struct Wide { double values[32]; };
using kw::simt::warp_exchange;
extern "C" __global__ void entry(const __grid_constant__ Params p) {
  if (p.out == nullptr) return;
  const unsigned lane = kw::simt::lane_id(), t = threadIdx.x;
  int* const out = p.out + t * 5;
  out[0] = warp_exchange(static_cast<int>(t) * 10)[lane ^ 5];                      // a butterfly
  const unsigned mine = lane % 4 == 1 ? 0x22222222u : ~0x22222222u;                // two groups at once, of 8 and of 24 lanes
  if (lane % 4 == 1) {
    const int* const all = warp_exchange(static_cast<int>(t), mine);
    out[1] = all[1] + all[29];
  } else {
    out[1] = -warp_exchange(static_cast<int>(t), mine)[31];
  }
  __syncwarp();
  Wide wide;
  for (int i = 0; i < 32; ++i) wide.values[i] = t * 100 + i;
  out[2] = static_cast<int>(warp_exchange(wide)[31 - lane].values[lane]);
  int sum = 0;
  for (int round = 0; round < 50; ++round) sum += warp_exchange(round * 32 + static_cast<int>(lane))[(lane + round) % 32];
  out[3] = sum;
  const int* const early = warp_exchange(static_cast<int>(lane) + 1000, 3u << (lane / 2 * 2));   // pairs
  out[4] = early[lane ^ 1];
})";
  in_every_mode([&](const RuntimeOptions& options) {
    const TestKernel kernel = make_kernel(options, source, 96, sizeof(Params));
    CHECK(kernel.loaded->fit(kernel.plan));
    std::vector<int> out(96 * 5, -1);
    REQUIRE(kernel.launch({1, 1, 1}, Params{out.data()}) == 0);
    for (int t = 0; t < 96; ++t) {
      const int lane = t % 32;
      const int first = t - lane;
      const int* const got = out.data() + t * 5;
      CHECK(got[0] == (first + (lane ^ 5)) * 10);
      CHECK(got[1] == (lane % 4 == 1 ? 2 * first + 30 : -(first + 31)));
      CHECK(got[2] == (first + 31 - lane) * 100 + lane);
      int sum = 0;
      for (int round = 0; round < 50; ++round) sum += round * 32 + (lane + round) % 32;
      CHECK(got[3] == sum);
      CHECK(got[4] == 1000 + (lane ^ 1));
    }
  });
}

TEST_CASE("host: a warp that the block does not fill") {
  struct Params {
    int* out;
  };
  const std::string source = R"(
struct Params { int* out; };
extern "C" __global__ void entry(const __grid_constant__ Params p) {
  if (p.out == nullptr) return;
  const int* const all = kw::simt::warp_exchange(static_cast<int>(threadIdx.x) + 1);
  int sum = 0;
  for (unsigned lane = 0; lane < (threadIdx.x < 32 ? 32 : 8); ++lane) sum += all[lane];
  __syncthreads();
  p.out[threadIdx.x] = sum;
})";
  in_every_mode([&](const RuntimeOptions& options) {
    const TestKernel kernel = make_kernel(options, source, 40, sizeof(Params));
    std::vector<int> out(40, -1);
    REQUIRE(kernel.launch({3, 1, 1}, Params{out.data()}) == 0);
    for (int t = 0; t < 40; ++t) CHECK(out[static_cast<std::size_t>(t)] == (t < 32 ? 32 * 33 / 2 : 8 * 32 + 8 * 9 / 2));
  });
}

TEST_CASE("host: named barriers join producers and consumers on different lines") {
  struct Params {
    int* out;
  };
  const std::string source = R"(
struct Params { int* out; };
extern "C" __global__ void entry(const __grid_constant__ Params p) {
  __shared__ int slot[64];
  if (p.out == nullptr) return;
  const int t = threadIdx.x;
  for (int round = 0; round < 10; ++round) {
    if (t < 32) {                               // one producer warp fills two slots a lane
      slot[t] = round * 100 + t;
      slot[t + 32] = round * 100 + t + 32;
      kw::simt::block_barrier(1, 96);           // full
      kw::simt::block_barrier(2, 96);           // empty again
    } else {
      kw::simt::block_barrier(1, 96);
      p.out[round * 64 + t - 32] = slot[95 - t];
      kw::simt::block_barrier(2, 96);
    }
  }
})";
  in_every_mode([&](const RuntimeOptions& options) {
    const TestKernel kernel = make_kernel(options, source, 96, sizeof(Params));
    std::vector<int> out(640, -1);
    REQUIRE(kernel.launch({1, 1, 1}, Params{out.data()}) == 0);
    for (int round = 0; round < 10; ++round) {
      for (int i = 0; i < 64; ++i) CHECK(out[static_cast<std::size_t>(round * 64 + i)] == round * 100 + 63 - i);
    }
  });
}

TEST_CASE("host: cp.async copies at the wait and fills with zeros") {
  struct Params {
    const int* in;
    int* out;
  };
  const std::string source = R"(
struct Params { const int* in; int* out; };
using namespace kw::simt;
extern "C" __global__ void entry(const __grid_constant__ Params p) {
  if (p.in == nullptr) return;
  int* const s = static_cast<int*>(dynamic_shared()) + threadIdx.x * 16;
  const int* const in = p.in + threadIdx.x * 16;
  int* out = p.out + threadIdx.x * 24;
  async_copy(s, in, 16, 16);            // group 0
  async_commit();
  async_copy(s + 4, in + 4, 16, 8);     // group 1: two words and two zeros
  async_commit();
  async_copy(s + 8, nullptr, 16, 0);    // group 2: zeros, nothing read
  async_copy(s + 12, in + 12, 4, 4);
  async_commit();
  async_copy(s + 13, in + 13, 8, 8);    // never committed: only wait_all waits for it. Misaligned on purpose below.
  *out++ = s[0];                        // nothing has been waited for
  async_wait(2);
  *out++ = s[0]; *out++ = s[3]; *out++ = s[4];
  async_wait(1);
  *out++ = s[4]; *out++ = s[5]; *out++ = s[6]; *out++ = s[7]; *out++ = s[8];
  async_wait(0);
  *out++ = s[8]; *out++ = s[11]; *out++ = s[12]; *out++ = s[13];
  async_wait_all();
  *out++ = s[13]; *out++ = s[14]; *out++ = s[15];
})";
  std::string fixed = source;  // 8 bytes want an address that 8 divides
  fixed.replace(fixed.find("async_copy(s + 13, in + 13, 8, 8)"), std::strlen("async_copy(s + 13, in + 13, 8, 8)"),
                "async_copy(s + 14, in + 14, 8, 8)");
  in_every_mode([&](const RuntimeOptions& options) {
    const TestKernel kernel = make_kernel(options, fixed, 64, sizeof(Params), 64 * 64);
    std::vector<int> in(64 * 16), out(64 * 24, 12345);
    std::iota(in.begin(), in.end(), 100);
    REQUIRE(kernel.launch({1, 1, 1}, Params{in.data(), out.data()}) == 0);
    for (int t = 0; t < 64; ++t) {
      const int base = 100 + t * 16;
      const int* const got = out.data() + t * 24;
      const std::vector<int> expected = {-1, base, base + 3, -1,        base + 4, base + 5, 0,         0,
                                         -1, 0,    0,        base + 12, -1,       -1,       base + 14, base + 15};
      CHECK(std::vector<int>(got, got + 16) == expected);
    }
    const TestKernel misaligned = make_kernel(options, source, 64, sizeof(Params), 64 * 64);
    const std::string words = misaligned.failure({1, 1, 1}, Params{in.data(), out.data()});
    CHECK(words.find("cp.async") != std::string::npos);
    CHECK(words.find("aligned") != std::string::npos);
    CHECK(words.find(place_of(source, "s + 13, in + 13")) != std::string::npos);
  });
}

TEST_CASE("host: atomics over all blocks and workers") {
  struct Params {
    unsigned long long* sum;
    unsigned* tickets;
  };
  const std::string source = R"(
struct Params { unsigned long long* sum; unsigned* tickets; };
extern "C" __global__ void entry(const __grid_constant__ Params p) {
  if (p.sum == nullptr) return;
  const unsigned ticket = __atomic_fetch_add(p.tickets, 1u, __ATOMIC_RELAXED);
  __syncthreads();
  __atomic_fetch_add(p.sum, (unsigned long long)ticket, __ATOMIC_RELAXED);
})";
  in_every_mode([&](const RuntimeOptions& options) {
    const TestKernel kernel = make_kernel(options, source, 64, sizeof(Params));
    unsigned long long sum = 0;
    unsigned tickets = 0;
    REQUIRE(kernel.launch({40, 1, 1}, Params{&sum, &tickets}) == 0);
    constexpr unsigned long long n = 40 * 64;
    CHECK(tickets == n);
    CHECK(sum == n * (n - 1) / 2);
  });
}

const std::string kBitonicSort = R"(
struct Params { unsigned* data; };
extern "C" __global__ void entry(const __grid_constant__ Params p) {
  __shared__ unsigned s[128];
  if (p.data == nullptr) return;
  const unsigned t = threadIdx.x;
  unsigned* const data = p.data + blockIdx.x * 128;
  s[t] = data[t];
  for (unsigned size = 2; size <= 128; size *= 2) {
    for (unsigned stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      const unsigned other = t ^ stride;
      if (other > t && (s[t] > s[other]) == ((t & size) == 0)) {
        const unsigned kept = s[t];
        s[t] = s[other];
        s[other] = kept;
      }
    }
  }
  __syncthreads();
  data[t] = s[t];
})";

struct SortParams {
  unsigned* data;
};

std::vector<unsigned> numbers(std::size_t count, unsigned seed) {
  std::vector<unsigned> list(count);
  for (unsigned& number : list) number = seed = seed * 1664525U + 1013904223U;
  return list;
}

void check_sorted_by_128(std::vector<unsigned> before, const std::vector<unsigned>& after) {
  for (auto at = before.begin(); at != before.end(); at += 128) std::sort(at, at + 128);
  CHECK((before == after));
}

TEST_CASE("host: a bitonic sort of 256 blocks of 128 threads") {
  const TestKernel kernel = make_kernel(host_options(), kBitonicSort, 128, sizeof(SortParams));
  double best = 1e9;
  for (int round = 0; round < 3; ++round) {
    const std::vector<unsigned> before = numbers(256 * 128, 7U + static_cast<unsigned>(round));
    std::vector<unsigned> after = before;
    const auto start = std::chrono::steady_clock::now();
    REQUIRE(kernel.launch({256, 1, 1}, SortParams{after.data()}) == 0);
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    check_sorted_by_128(before, after);
  }
  MESSAGE("256 x 128 threads, 29 barriers: " << best << " ms");
}

TEST_CASE("host: launches from several threads at once, in every mode") {
  in_every_mode([&](const RuntimeOptions& options) {
    const TestKernel kernel = make_kernel(options, kBitonicSort, 128, sizeof(SortParams));
    std::vector<std::vector<unsigned>> before, after;
    for (unsigned i = 0; i < 4; ++i) before.push_back(numbers(5 * 128, 1000 + i));
    after = before;
    std::atomic<int> failed = 0;
    {
      std::vector<std::jthread> callers;
      for (std::size_t i = 0; i < 4; ++i) {
        callers.emplace_back([&, i] {
          for (int round = 0; round < 3; ++round) failed += kernel.launch({5, 1, 1}, SortParams{after[i].data()}) != 0;
        });
      }
    }
    CHECK(failed == 0);
    for (std::size_t i = 0; i < 4; ++i) check_sorted_by_128(before[i], after[i]);
  });
}

TEST_CASE("host: a block of 1024 threads") {
  struct Params {
    int* out;
  };
  const std::string source = R"(
struct Params { int* out; };
extern "C" __global__ void entry(const __grid_constant__ Params p) {
  __shared__ int s[1024];
  if (p.out == nullptr) return;
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  p.out[threadIdx.x] = s[1023 - threadIdx.x];
})";
  in_every_mode([&](const RuntimeOptions& options) {
    const TestKernel kernel = make_kernel(options, source, 1024, sizeof(Params));
    std::vector<int> out(1024);
    REQUIRE(kernel.launch({1, 1, 1}, Params{out.data()}) == 0);
    for (int t = 0; t < 1024; ++t) CHECK(out[static_cast<std::size_t>(t)] == 1023 - t);
  });
}

TEST_CASE("host: parameters of any trivially copyable type, at any address") {
  struct Params {
    double scale;
    short shift;
    char tag[13];
    double* out;
  };
  const std::string source = R"(
class Params {
 public:
  Params() = delete;
  double scale; short shift; char tag[13]; double* out;
};
extern "C" __global__ void entry(const __grid_constant__ Params p) {
  if (p.out) *p.out = p.scale + p.shift + p.tag[12];
})";
  const TestKernel kernel = make_kernel(host_options(), source, 1, sizeof(Params));
  double out = 0;
  const Params params{0.25, 1000, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}, &out};
  std::vector<std::byte> bytes(sizeof(Params) + 1);
  std::memcpy(bytes.data() + 1, &params, sizeof(Params));
  REQUIRE(kernel.loaded->launch({}, kernel.plan, bytes.data() + 1, nullptr) == 0);
  CHECK(out == 1007.25);
}

}  // namespace
}  // namespace kernwright::test
