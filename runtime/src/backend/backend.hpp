// The seam between prepare and the code that compiles, loads and launches.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "artifact.hpp"
#include "kernwright/device.hpp"
#include "kernwright/plan.hpp"
#include "kernwright/result.hpp"

namespace kernwright {

struct CompileOutput {
  std::vector<std::byte> binary;
  std::string log;
  double seconds = 0;
};

/// Turns a BuildRequest into a binary. Thread-safe.
class Compiler {
 public:
  virtual ~Compiler() = default;
  /// The name that its identity has: "nvrtc" or "host".
  [[nodiscard]] virtual std::string_view family() const noexcept = 0;
  /// Opens or finds the compiler on the first call; compiler_unavailable says where it was looked for.
  virtual Result<CompilerIdentity> identity() = 0;
  /// compile_failed carries the log and the source lines it names; does_not_fit where the compiler says that the kernel asks for too much
  /// shared memory or too many registers; timed_out after the limit.
  virtual Result<CompileOutput> compile(const BuildRequest& request) = 0;
  /// Registers, shared memory, stack and spills from the binary and the log.
  virtual Result<ResourceUse> resources(const BuildRequest& request, std::span<const std::byte> binary, std::string_view log) = 0;
};

/// One kernel loaded for one device. Thread-safe after fit().
class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;
  /// Raises the shared-memory limit (never lowers it), checks occupancy ≥ 1, and launches once with all-zero parameters on a stream of the
  /// backend's own, waiting for it. does_not_fit means the next candidate; anything else is final.
  virtual Result<> fit(const Plan& plan) = 0;

  /// The hot path: 0, or the backend's status code for explain(). No lock, no allocation.
  virtual int launch(const Grid& grid, const Plan& plan, const void* params, void* stream) noexcept = 0;
  /// The cold path: the error for a status, with the backend's name and text of it. `what` describes kernel, specialisation and grid.
  virtual Error explain(int status, const std::string& what, void* stream) = 0;
};

/// `rows` rows of `row_bytes` bytes, each `from_pitch` bytes behind the one before it, and `to_pitch` where they go. A pitch is at least
/// row_bytes.
struct RowCopy {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t rows = 0, row_bytes = 0, from_pitch = 0, to_pitch = 0;
  [[nodiscard]] bool dense() const noexcept { return rows <= 1 || (from_pitch == row_bytes && to_pitch == row_bytes); }
};

/// Devices, memory, streams, loading. Thread-safe.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual Result<std::vector<DeviceInfo>> devices() = 0;
  virtual Compiler& compiler() = 0;
  /// Loads eagerly. load_failed where the binary is refused.
  virtual Result<std::unique_ptr<LoadedKernel>> load(const DeviceInfo& device, const Artifact& artifact) = 0;

  virtual Result<void*> allocate(DeviceId device, Bytes size) = 0;
  virtual void free(DeviceId device, void* data) noexcept = 0;
  virtual Result<> copy_to_device(DeviceId device, void* to, std::span<const std::byte> from) = 0;
  virtual Result<> copy_from_device(DeviceId device, std::span<std::byte> to, const void* from) = 0;
  /// Enqueued on the stream; the two do not overlap.
  virtual Result<> copy_on_device(DeviceId device, void* to, const void* from, Bytes size, StreamHandle stream) = 0;
  virtual Result<> fill(DeviceId device, void* data, std::byte value, Bytes size) = 0;
  /// Enqueued on the stream; legal while it captures.
  virtual Result<> enqueue_zeros(DeviceId device, void* data, Bytes size, StreamHandle stream) = 0;

  /// Host memory that a device copies into while the host goes on.
  virtual Result<void*> allocate_pinned(DeviceId device, Bytes size) = 0;
  virtual void free_pinned(DeviceId device, void* data) noexcept = 0;
  /// Copies from device memory into pinned memory behind what the stream was given before; done once an event recorded behind it has come.
  virtual Result<> enqueue_copy_from_device(DeviceId device, const RowCopy& copy, StreamHandle stream) = 0;

  virtual Result<StreamHandle> create_stream(DeviceId device) = 0;
  virtual void destroy_stream(DeviceId device, StreamHandle stream) noexcept = 0;
  virtual Result<> synchronize(DeviceId device, StreamHandle stream) = 0;
  /// Whether a capture is going on in the stream; false where that cannot be asked.
  virtual bool is_capturing(StreamHandle stream) noexcept = 0;
  virtual Result<void*> create_event(DeviceId device) = 0;
  virtual void destroy_event(DeviceId device, void* event) noexcept = 0;
  virtual Result<> record_event(DeviceId device, void* event, StreamHandle stream) = 0;
  virtual Result<> enqueue_wait(DeviceId device, StreamHandle stream, void* event) = 0;
  /// The calling thread waits until the event has come. device_fault where the device failed before it.
  virtual Result<> wait_for_event(DeviceId device, void* event) = 0;
  virtual Result<double> elapsed_milliseconds(DeviceId device, void* start, void* stop) = 0;
};

}  // namespace kernwright
