// Devices as the runtime sees them.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "kernwright/target.hpp"
#include "kernwright/units.hpp"

namespace kernwright {

enum class BackendKind : std::uint8_t { cuda, host };

/// Names a device. The host interpreter is one device and is only ever used when it is asked for by name.
struct DeviceId {
  BackendKind backend = BackendKind::cuda;
  int ordinal = 0;
  static constexpr DeviceId cuda(int ordinal) noexcept { return {BackendKind::cuda, ordinal}; }
  static constexpr DeviceId host() noexcept { return {BackendKind::host, 0}; }
  friend constexpr auto operator<=>(DeviceId, DeviceId) = default;
};
std::string to_string(DeviceId id);  ///< "cuda:0", "host"

struct DeviceInfo {
  DeviceId id;
  std::string name;          ///< As the driver gives it; "host" for the interpreter.
  int capability_major = 0;  ///< 0 for host.
  int capability_minor = 0;
  Target target = Target::host();
  Bytes shared_memory_per_block;  ///< The opt-in limit, static and dynamic together, lowered by RuntimeOptions::shared_memory_limit.
  int max_threads_per_block = 0;
  int multiprocessors = 0;  ///< Worker threads for host.
  Bytes l2;
  Bytes memory;
};

/// A borrowed CUstream; null is the legacy default stream (and the only stream of the host backend).
struct StreamHandle {
  void* native = nullptr;
};

}  // namespace kernwright
