// The written form of every public enumeration.
#include <array>
#include <utility>

#include "kernwright/device.hpp"
#include "kernwright/dtype.hpp"
#include "kernwright/kernel.hpp"
#include "kernwright/log.hpp"
#include "kernwright/result.hpp"
#include "kernwright/runtime.hpp"

namespace kernwright {

std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::not_found: return "not_found";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::does_not_fit: return "does_not_fit";
    case ErrorCode::compiler_unavailable: return "compiler_unavailable";
    case ErrorCode::compile_failed: return "compile_failed";
    case ErrorCode::driver_unavailable: return "driver_unavailable";
    case ErrorCode::load_failed: return "load_failed";
    case ErrorCode::launch_failed: return "launch_failed";
    case ErrorCode::out_of_memory: return "out_of_memory";
    case ErrorCode::device_fault: return "device_fault";
    case ErrorCode::io: return "io";
    case ErrorCode::malformed: return "malformed";
    case ErrorCode::capturing: return "capturing";
    case ErrorCode::timed_out: return "timed_out";
    case ErrorCode::sealed_miss: return "sealed_miss";
    case ErrorCode::internal: return "internal";
  }
  return "unknown";
}

std::string_view to_string(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::error: return "error";
    case LogLevel::warn: return "warn";
    case LogLevel::info: return "info";
    case LogLevel::debug: return "debug";
  }
  return "unknown";
}

namespace {
constexpr std::array<std::pair<DType, std::string_view>, 6> kDTypes{
    {{DType::bf16, "bf16"}, {DType::f16, "f16"}, {DType::f32, "f32"}, {DType::i32, "i32"}, {DType::i64, "i64"}, {DType::u8, "u8"}}};
}  // namespace

std::string_view to_string(DType dtype) noexcept {
  for (const auto& [value, name] : kDTypes) {
    if (value == dtype) return name;
  }
  return "unknown";
}

std::optional<DType> dtype_from_string(std::string_view name) noexcept {
  for (const auto& [value, text] : kDTypes) {
    if (text == name) return value;
  }
  return std::nullopt;
}

std::string_view to_string(CacheSource source) noexcept {
  switch (source) {
    case CacheSource::memory: return "memory";
    case CacheSource::store: return "store";
    case CacheSource::remote: return "remote";
    case CacheSource::built: return "built";
  }
  return "unknown";
}

std::string_view to_string(HostMode mode) noexcept {
  switch (mode) {
    case HostMode::fibers: return "fibers";
    case HostMode::fibers_asan: return "fibers-asan";
    case HostMode::threads: return "threads";
  }
  return "unknown";
}

std::string to_string(DeviceId id) {
  return id.backend == BackendKind::host ? "host" : "cuda:" + std::to_string(id.ordinal);
}

}  // namespace kernwright
