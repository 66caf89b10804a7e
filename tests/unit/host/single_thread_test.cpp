// A grid of one thread: nothing but the call.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "backend/host/sanitizers.hpp"
#include "fixtures/call_counters.hpp"
#include "unit/host/host_fixture.hpp"

namespace kernwright::test {
namespace {

struct Params {
  int* out;
  int value;
};
const std::string kStore = R"(
struct Params { int* out; int value; };
extern "C" __global__ void entry(const __grid_constant__ Params p) { if (p.out) *p.out += p.value; }
)";

TEST_CASE("host: the counters of calls count") {
  if (!counts_calls()) return;
  const CallCounts before = call_counts();
  std::string text(1000, 'x');
  std::mutex mutex;
  { const std::lock_guard lock(mutex); }
  const CallCounts after = call_counts();
  CHECK(text.size() == 1000);
  CHECK(after.allocations > before.allocations);
  CHECK(after.locks > before.locks);
}

TEST_CASE("host: a launch of one thread takes no lock and allocates nothing") {
  for (const int dynamic_shared : {0, 4096}) {
    const TestKernel kernel = make_kernel(host_options(), kStore, 1, sizeof(Params), dynamic_shared);
    int out = 0;
    REQUIRE(kernel.launch({1, 1, 1}, Params{&out, 1}) == 0);  // the loader makes the object's thread-local memory at the first use
    const CallCounts before = call_counts();
    int failed = 0;
    for (int i = 0; i < 100; ++i) failed += kernel.launch({1, 1, 1}, Params{&out, 2});
    const CallCounts after = call_counts();
    CHECK(failed == 0);
    CHECK(out == 201);
    CHECK(after.allocations == before.allocations);
    CHECK(after.locks == before.locks);
  }
  if (!counts_calls()) MESSAGE("not counted: this build has a sanitizer");
}

void add(int* out, int value) {
  *out += value;
}

TEST_CASE("host: a launch of one thread costs at most 150 ns more than a call") {
  const TestKernel kernel = make_kernel(host_options(), kStore, 1, sizeof(Params));
  int out = 0;
  const auto best_of = [](auto call) {
    double best = 1e9;
    for (int batch = 0; batch < 50; ++batch) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < 1000; ++i) call();
      best = std::min(best, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / 1000);
    }
    return best;
  };
  int failed = 0;
  const double launch = best_of([&] { failed += kernel.launch({1, 1, 1}, Params{&out, 1}); });
  void (*volatile direct)(int*, int) = add;
  const double call = best_of([&] { direct(&out, 1); });
  CHECK(failed == 0);
  MESSAGE("launch " << launch << " ns, direct call " << call << " ns");
#if defined(NDEBUG)
  if (!host::kBuiltWithAsan && !host::kBuiltWithTsan) CHECK(launch - call <= 150);
#endif
}

}  // namespace
}  // namespace kernwright::test
