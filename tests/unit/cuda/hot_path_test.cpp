// Counts what a launch does besides launching. A program of its own, because it replaces the allocator's and the mutex's entry points.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "fake_driver_fixture.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>

#include "kernwright/sparse_mla_prefill.hpp"

namespace {

std::atomic<bool> counting{false};
std::atomic<int> allocations{0};
std::atomic<int> locks{0};

void count(std::atomic<int>& counter) noexcept {
  if (counting.load(std::memory_order_relaxed)) counter.fetch_add(1, std::memory_order_relaxed);
}

template <class Function>
Function next(const char* name) noexcept {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);

// operator new ends here too.
void* malloc(std::size_t size) {
  count(allocations);
  return __libc_malloc(size);
}
void* calloc(std::size_t n, std::size_t size) {
  count(allocations);
  return __libc_calloc(n, size);
}
void* realloc(void* data, std::size_t size) {
  count(allocations);
  return __libc_realloc(data, size);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  count(locks);
  static const auto real = next<int (*)(pthread_mutex_t*)>("pthread_mutex_lock");
  return real(mutex);
}
int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  count(locks);
  static const auto real = next<int (*)(pthread_mutex_t*)>("pthread_mutex_trylock");
  return real(mutex);
}
int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
  count(locks);
  static const auto real = next<int (*)(pthread_rwlock_t*)>("pthread_rwlock_rdlock");
  return real(lock);
}
int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
  count(locks);
  static const auto real = next<int (*)(pthread_rwlock_t*)>("pthread_rwlock_wrlock");
  return real(lock);
}
}

using namespace kernwright;
using namespace kernwright::testing;

TEST_CASE("cuda launch: takes no lock and allocates nothing, on a stream, on a default stream, with attributes") {
  auto& driver = fake_driver();
  const auto loaded = prepared();
  const CUstream stream = driver.make_stream(0);
  Plan clustered = plan();
  clustered.cluster = 2;
  const long params[2] = {};
  int refused = 0;
  const auto launch_all = [&] {
    for (int i = 0; i < 1000; ++i) {
      refused += loaded.kernel->launch(Grid{}, plan(), params, stream);
      refused += loaded.kernel->launch(Grid{2, 1, 1}, clustered, params, stream);
    }
  };
  launch_all();
  counting = true;
  launch_all();
  counting = false;
  CHECK(refused == 0);
  CHECK(allocations == 0);
  CHECK(locks == 0);
}

// The whole call, real kernels on the fake device: argument checks, parameter structs, both launches.
TEST_CASE("sparse MLA prefill: a prepared call takes no lock and allocates nothing") {
  auto& driver = fake_driver();
  RuntimeOptions runtime_options;
  runtime_options.memory_only = true;
  runtime_options.cuda_driver = KERNWRIGHT_FAKE_CUDA_WHOLE;
  auto runtime = Runtime::create(runtime_options);
  REQUIRE(runtime);
  for (const int group_size : {0, 8}) {
    SparseMlaPrefillOptions options;
    options.device = DeviceId::cuda(0);
    options.heads = 8;
    options.group_size = group_size;
    auto op = SparseMlaPrefill::create(*runtime, options);
    if (!op && op.error().code == ErrorCode::compiler_unavailable) {
      MESSAGE("skipped: no NVRTC here");
      return;
    }
    REQUIRE_MESSAGE(op.has_value(), (op ? "" : op.error().text()));
    constexpr std::int64_t kTokens = 100, kRows = 1000, kTopk = 64;
    // Addresses of the fake device: nothing looks behind them.
    const auto at = [](std::uintptr_t address) { return reinterpret_cast<void*>(address << 20); };
    SparseMlaPrefillArguments arguments;
    arguments.q = TensorView::contiguous(at(1), DType::bf16, {kTokens, 8, 576});
    arguments.kv = TensorView::contiguous(at(2), DType::bf16, {kRows, 576});
    arguments.indices = TensorView::contiguous(at(3), DType::i32, {kTokens, kTopk});
    arguments.topk_length = TensorView::contiguous(at(4), DType::i32, {kTokens});
    arguments.attn_sink = TensorView::contiguous(at(5), DType::f32, {8});
    arguments.out = TensorView::contiguous(at(6), DType::bf16, {kTokens, 8, 512});
    arguments.lse = TensorView::contiguous(at(7), DType::f32, {kTokens, 8});
    arguments.sm_scale = 0.1F;
    arguments.workspace = at(8);
    arguments.workspace_size = op->workspace_bytes(kTokens, kRows);
    const StreamHandle stream{driver.make_stream(0)};
    const int before = driver.calls("cuLaunchKernel");
    allocations = locks = 0;
    int refused = 0;
    counting = true;
    for (int i = 0; i < 100; ++i) refused += op->run(arguments, stream) ? 0 : 1;
    counting = false;
    CHECK(refused == 0);
    CHECK(driver.calls("cuLaunchKernel") - before == (group_size == 0 ? 100 : 200));
    CHECK(allocations == 0);
    CHECK(locks == 0);
  }
}

TEST_CASE("cuda launch: the counters count") {
  allocations = locks = 0;
  counting = true;
  auto* data = new std::string(100, 'x');
  std::mutex mutex;
  mutex.lock();
  mutex.unlock();
  counting = false;
  delete data;
  CHECK(allocations >= 2);
  CHECK(locks >= 1);
}
