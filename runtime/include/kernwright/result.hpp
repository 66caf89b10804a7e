// Result<T>: how every fallible call of the library answers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace kernwright {

enum class ErrorCode : std::uint8_t {
  invalid_argument,      ///< The caller's argument is wrong; the message names it, what came and what is legal.
  not_found,             ///< A named template, file, device or entry does not exist.
  unsupported,           ///< Legal words, but this device, driver or build cannot do it.
  does_not_fit,          ///< No offered tile fits the device's limits. The only error that makes the dispatcher try the next tile.
  compiler_unavailable,  ///< No NVRTC (or host compiler) could be opened.
  compile_failed,        ///< The compiler refused the source; the message carries its log.
  driver_unavailable,    ///< libcuda.so.1 could not be opened, is too old, or finds no device.
  load_failed,           ///< A compiled artifact could not be loaded or is not what it says.
  launch_failed,         ///< The driver refused a launch for a reason other than resources.
  out_of_memory,         ///< Device or host memory is exhausted.
  device_fault,          ///< A sticky device error (illegal address and its kin): the context is lost, never retried.
  io,                    ///< A file could not be read or written.
  malformed,             ///< A file or text was read but is not what its format says.
  capturing,             ///< The call is not legal while the stream captures.
  timed_out,             ///< A bounded wait or compile ended at its limit.
  sealed_miss,           ///< Sealed: no store holds it, and nothing may be compiled. The message says how to warm it.
  internal,              ///< A broken invariant of the library itself.
};

/// The code's name as written above, for messages and JSON.
std::string_view to_string(ErrorCode code) noexcept;

/// What went wrong, in words a user can act on: what was asked, what was found, what to do.
struct Error {
  ErrorCode code{};
  std::string message;
  std::string context;  ///< What was being done, outermost first, joined by " > ". May be empty.

  /// This error with an outer step before its `context`.
  [[nodiscard]] Error within(std::string_view step) &&;
  /// "code: message (while context)".
  [[nodiscard]] std::string text() const;
};

template <class T = void>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message), {}});
}
inline tl::unexpected<Error> fail(Error&& error) {
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace kernwright
