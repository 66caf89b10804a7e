#include "support/call_counters.hpp"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define KERNWRIGHT_TEST_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KERNWRIGHT_TEST_SANITIZED 1
#endif

#if defined(KERNWRIGHT_TEST_SANITIZED)

namespace kernwright::test {
bool counts_calls() noexcept {
  return false;
}
CallCounts call_counts() noexcept {
  return {};
}
}  // namespace kernwright::test

#else

#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>
#include <cstddef>

namespace {

// constinit and local-exec: reading them allocates nothing even while a thread starts.
constinit thread_local std::uint64_t allocations = 0;
constinit thread_local std::uint64_t locks = 0;

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

namespace kernwright::test {
bool counts_calls() noexcept {
  return true;
}
CallCounts call_counts() noexcept {
  return {allocations, locks};
}
}  // namespace kernwright::test

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  ++allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* data, std::size_t bytes) {
  ++allocations;
  return __libc_realloc(data, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** data, std::size_t alignment, std::size_t bytes) {
  ++allocations;
  void* const made = __libc_memalign(alignment, bytes);
  if (made == nullptr) return ENOMEM;
  *data = made;
  return 0;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static const auto real = next<int(pthread_mutex_t*)>("pthread_mutex_lock");
  ++locks;
  return real(mutex);
}
int pthread_mutex_trylock(pthread_mutex_t* mutex) {
  static const auto real = next<int(pthread_mutex_t*)>("pthread_mutex_trylock");
  ++locks;
  return real(mutex);
}
int pthread_rwlock_rdlock(pthread_rwlock_t* lock) {
  static const auto real = next<int(pthread_rwlock_t*)>("pthread_rwlock_rdlock");
  ++locks;
  return real(lock);
}
int pthread_rwlock_wrlock(pthread_rwlock_t* lock) {
  static const auto real = next<int(pthread_rwlock_t*)>("pthread_rwlock_wrlock");
  ++locks;
  return real(lock);
}
}

#endif
