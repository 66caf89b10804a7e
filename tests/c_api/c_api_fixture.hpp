// What the tests of the C interface share. They know the library by its header alone.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "kernwright/kernwright.h"

namespace kernwright::tests::c {

inline void destroy(kw_runtime* handle) noexcept {
  kw_runtime_destroy(handle);
}
inline void destroy(kw_kernel* handle) noexcept {
  kw_kernel_destroy(handle);
}
inline void destroy(kw_future* handle) noexcept {
  kw_future_destroy(handle);
}
inline void destroy(kw_reports* handle) noexcept {
  kw_reports_destroy(handle);
}
inline void destroy(kw_warm_result* handle) noexcept {
  kw_warm_result_destroy(handle);
}
inline void destroy(kw_sparse_mla_prefill* handle) noexcept {
  kw_sparse_mla_prefill_destroy(handle);
}
inline void destroy(kw_paged_kv* handle) noexcept {
  kw_paged_kv_destroy(handle);
}
inline void destroy(kw_paged_mla_decode* handle) noexcept {
  kw_paged_mla_decode_destroy(handle);
}
inline void destroy(kw_unified_pool* handle) noexcept {
  kw_unified_pool_destroy(handle);
}
struct Destroyer {
  template <class Handle>
  void operator()(Handle* handle) const noexcept {
    destroy(handle);
  }
};
template <class Handle>
using Owned = std::unique_ptr<Handle, Destroyer>;

inline std::string last_error() {
  return kw_last_error();
}
inline bool says(const char* text) {
  return last_error().find(text) != std::string::npos;
}

template <class Struct>
Struct made() {
  Struct object;
  kw_init(&object);
  return object;
}

/// The store of all tests of a build tree, so that each specialisation is compiled once.
inline Owned<kw_runtime> shared_runtime() {
  auto options = made<kw_runtime_options>();
  options.store = std::getenv("KERNWRIGHT_TEST_STORE");
  kw_runtime* runtime = nullptr;
  REQUIRE_MESSAGE(kw_runtime_create(&options, &runtime) == KW_OK, kw_last_error());
  return Owned<kw_runtime>(runtime);
}

inline std::uint16_t bf16(float value) {  // exact values only
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<std::uint16_t>(bits >> 16);
}
inline float from_bf16(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

template <class T>
kw_tensor dense(std::vector<T>& values, kw_dtype dtype, std::initializer_list<std::int64_t> shape) {
  return kw_dense(values.data(), dtype, static_cast<std::int32_t>(shape.size()), shape.begin());
}

}  // namespace kernwright::tests::c
