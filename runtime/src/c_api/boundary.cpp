#include "c_api/boundary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#ifndef KERNWRIGHT_VERSION_NUMBER
#error "the build defines KERNWRIGHT_VERSION_NUMBER"
#endif

namespace kernwright::c_api {
namespace {

constexpr std::size_t kLargestStruct = 65536;  // larger sizes come from structs that nobody initialised

/// The calling thread's last failure. The one thing here that outlives a call; a thread sees only its own.
struct LastError {
  std::string text;
  bool lost = false;  ///< There was no memory for the text.
};
LastError& last_error() noexcept {
  thread_local LastError error;
  return error;
}

}  // namespace

kw_status status_of(const Error& error) noexcept {
  LastError& last = last_error();
  try {
    last.text = error.text();
    last.lost = false;
  } catch (...) {
    last.lost = true;
  }
  return static_cast<kw_status>(error.code) + 1;
}

static_assert(static_cast<kw_status>(ErrorCode::invalid_argument) + 1 == KW_INVALID_ARGUMENT);
static_assert(static_cast<kw_status>(ErrorCode::capturing) + 1 == KW_CAPTURING);
static_assert(static_cast<kw_status>(ErrorCode::internal) + 1 == KW_INTERNAL);

tl::unexpected<Error> null_pointer(std::string_view name) {
  return fail(ErrorCode::invalid_argument, fmt::format("{} is NULL; it is needed", name));
}

tl::unexpected<Error> reserved_is_set(std::int32_t value, std::string_view name) {
  return fail(ErrorCode::invalid_argument, fmt::format("{}: reserved is {}; legal is 0", name, value));
}

Result<> need(const void* pointer, std::string_view name) {
  if (pointer == nullptr) return null_pointer(name);
  return {};
}

Result<> check_size(const void* given, std::size_t known, std::size_t alignment, std::string_view name) {
  std::size_t size = 0;
  std::memcpy(&size, given, sizeof(size));
  if (size < sizeof(size) || size > kLargestStruct || size % alignment != 0) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: its size is {}; set it with kw_init() ({} bytes in this version of the library)", name, size, known));
  }
  if (size <= known) return {};
  const auto* bytes = static_cast<const unsigned char*>(given);
  const auto* set = std::find_if(bytes + known, bytes + size, [](unsigned char byte) { return byte != 0; });
  if (set == bytes + size) return {};
  return fail(
      ErrorCode::invalid_argument,
      fmt::format("{}: byte {} of {} is set, and this version of the library knows the first {}; leave newer members zero, or use a "
                  "library as new as the header",
                  name, set - bytes, size, known));
}

Result<> write_bytes(void* to, const void* values, std::size_t known, std::size_t alignment, std::string_view name) {
  if (to == nullptr) return null_pointer(name);
  std::size_t size = 0;
  std::memcpy(&size, to, sizeof(size));
  if (size < sizeof(size) || size > kLargestStruct || size % alignment != 0) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: its size is {}; set it with kw_init() ({} bytes in this version of the library)", name, size, known));
  }
  auto* out = static_cast<unsigned char*>(to);
  const auto* in = static_cast<const unsigned char*>(values);
  const std::size_t common = std::min(size, known);
  std::copy(in + sizeof(size), in + common, out + sizeof(size));
  std::fill(out + common, out + size, static_cast<unsigned char>(0));
  return {};
}

}  // namespace kernwright::c_api

extern "C" {

const char* kw_last_error(void) {
  const auto& last = kernwright::c_api::last_error();
  return last.lost ? "out_of_memory: there was no memory for the text of this error" : last.text.c_str();
}

const char* kw_status_name(kw_status status) {
  if (status == KW_OK) return "ok";
  if (status < KW_OK || status > KW_INTERNAL) return "unknown";
  return kernwright::to_string(static_cast<kernwright::ErrorCode>(status - 1)).data();  // a literal, so it ends in 0
}

uint32_t kw_version(void) {
  return KERNWRIGHT_VERSION_NUMBER;
}

}  // extern "C"
