#include "exit_code.hpp"

namespace kernwright::tool {

ExitCode exit_code(const Error& error) noexcept {
  switch (error.code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::not_found:
    case ErrorCode::malformed: return ExitCode::usage;
    case ErrorCode::unsupported:
    case ErrorCode::does_not_fit:
    case ErrorCode::compiler_unavailable:
    case ErrorCode::compile_failed:
    case ErrorCode::driver_unavailable:
    case ErrorCode::load_failed:
    case ErrorCode::launch_failed:
    case ErrorCode::out_of_memory:
    case ErrorCode::device_fault:
    case ErrorCode::io:
    case ErrorCode::capturing:
    case ErrorCode::timed_out:
    case ErrorCode::sealed_miss:
    case ErrorCode::internal: return ExitCode::unable;
  }
  return ExitCode::unable;
}

}  // namespace kernwright::tool
