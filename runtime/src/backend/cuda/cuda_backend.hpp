// The `cuda` backend: devices, memory, streams and loading, over a driver opened when first needed.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cuda/devices.hpp"
#include "kernwright/runtime.hpp"
#include "platform/logger.hpp"

namespace kernwright {

/// Thread-safe. Every member may be called from a thread with any or no current context, which it finds unchanged afterwards.
class CudaBackend final : public Backend {
 public:
  CudaBackend(const RuntimeOptions& options, Logger logger);

  Result<std::vector<DeviceInfo>> devices() override;
  Compiler& compiler() override { return *compiler_; }
  Result<std::unique_ptr<LoadedKernel>> load(const DeviceInfo& device, const Artifact& artifact) override;

  Result<void*> allocate(DeviceId device, Bytes size) override;
  void free(DeviceId device, void* data) noexcept override;
  Result<> copy_to_device(DeviceId device, void* to, std::span<const std::byte> from) override;
  Result<> copy_from_device(DeviceId device, std::span<std::byte> to, const void* from) override;
  Result<> copy_on_device(DeviceId device, void* to, const void* from, Bytes size, StreamHandle stream) override;
  Result<> fill(DeviceId device, void* data, std::byte value, Bytes size) override;
  Result<> enqueue_zeros(DeviceId device, void* data, Bytes size, StreamHandle stream) override;

  Result<void*> allocate_pinned(DeviceId device, Bytes size) override;
  void free_pinned(DeviceId device, void* data) noexcept override;
  Result<> enqueue_copy_from_device(DeviceId device, const RowCopy& copy, StreamHandle stream) override;

  Result<StreamHandle> create_stream(DeviceId device) override;
  void destroy_stream(DeviceId device, StreamHandle stream) noexcept override;
  Result<> synchronize(DeviceId device, StreamHandle stream) override;
  bool is_capturing(StreamHandle stream) noexcept override;
  Result<void*> create_event(DeviceId device) override;
  void destroy_event(DeviceId device, void* event) noexcept override;
  Result<> record_event(DeviceId device, void* event, StreamHandle stream) override;
  Result<> enqueue_wait(DeviceId device, StreamHandle stream, void* event) override;
  Result<> wait_for_event(DeviceId device, void* event) override;
  Result<double> elapsed_milliseconds(DeviceId device, void* start, void* stop) override;

 private:
  using Devices = std::vector<std::shared_ptr<CudaDevice>>;
  // The list, made on the first call that succeeds.
  Result<std::shared_ptr<const Devices>> opened();
  Result<std::shared_ptr<CudaDevice>> find(DeviceId id);
  // Runs `call(device)`, which answers a CUresult, with the device's context current; its error says `what`.
  template <class Call>
  Result<> with_device(DeviceId id, const char* what, Call&& call);

  std::optional<std::filesystem::path> driver_path_;
  std::optional<Bytes> shared_memory_limit_;
  std::unique_ptr<Compiler> compiler_;
  std::mutex mutex_;
  std::shared_ptr<const Devices> devices_;  // guarded by mutex_
};

}  // namespace kernwright
