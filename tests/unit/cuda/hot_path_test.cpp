// Counts what a launch does besides launching. A program of its own, because it replaces the allocator's and the mutex's entry points.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "fake_driver_fixture.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdlib>

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

TEST_CASE("cuda launch: the counters count") {
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
