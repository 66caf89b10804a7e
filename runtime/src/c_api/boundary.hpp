// The edge of the C interface: statuses, the thread's error text, structs of any age.
#pragma once

#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "kernwright/kernwright.h"
#include "kernwright/result.hpp"

namespace kernwright::c_api {

/// KW_OK, or the error's status; its text becomes the calling thread's last error.
kw_status status_of(const Error& error) noexcept;

inline kw_status status_of(const Result<>& result) noexcept {
  return result ? KW_OK : status_of(result.error());
}

/// What a C function answers: `call` answers Result<>. Nothing that is thrown below goes further.
template <class Call>
kw_status guarded(const Call& call) noexcept {
  try {
    return status_of(call());
  } catch (const std::bad_alloc&) {
    return status_of(Error{ErrorCode::out_of_memory, "the host's memory is exhausted", {}});
  } catch (const std::exception& thrown) {
    return status_of(Error{ErrorCode::internal, std::string("an exception inside the library: ") + thrown.what(), {}});
  } catch (...) {
    return status_of(Error{ErrorCode::internal, "an exception of no standard type inside the library", {}});
  }
}

tl::unexpected<Error> null_pointer(std::string_view name);
tl::unexpected<Error> reserved_is_set(std::int32_t value, std::string_view name);
/// `size` as a caller set it, for a struct of `known` bytes here; checks it, and that what lies behind the known bytes is zero.
Result<> check_size(const void* given, std::size_t known, std::size_t alignment, std::string_view name);

/// A copy of the caller's struct in which members that the caller does not know are zero. Null is an error.
template <class Struct>
Result<Struct> read_struct(const Struct* given, std::string_view name) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  if (given == nullptr) return null_pointer(name);
  if (auto checked = check_size(given, sizeof(Struct), alignof(Struct), name); !checked) return fail(std::move(checked.error()));
  std::size_t size = 0;
  std::memcpy(&size, given, sizeof(size));
  Struct copy;
  std::memset(&copy, 0, sizeof(copy));
  std::memcpy(&copy, given, size < sizeof(Struct) ? size : sizeof(Struct));
  if constexpr (requires { copy.reserved; }) {
    if (copy.reserved != 0) return reserved_is_set(copy.reserved, name);
  }
  return copy;
}

/// Writes `values` to the caller's struct as far as that reaches, and zero to what this library does not know; its size stays.
Result<> write_bytes(void* to, const void* values, std::size_t known, std::size_t alignment, std::string_view name);
template <class Struct>
Result<> write_struct(Struct* to, const Struct& values, std::string_view name) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  return write_bytes(to, &values, sizeof(Struct), alignof(Struct), name);
}

/// Sets `*to` to null first: what a failed call leaves.
template <class Handle>
Result<> clear(Handle** to, std::string_view name) {
  if (to == nullptr) return null_pointer(name);
  *to = nullptr;
  return {};
}

/// Null where a name is needed is an error.
Result<> need(const void* pointer, std::string_view name);
inline std::string text_or_empty(const char* text) {
  return text == nullptr ? std::string() : std::string(text);
}

}  // namespace kernwright::c_api
