// The driver's devices and their primary contexts.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "backend/cuda/driver.hpp"
#include "kernwright/device.hpp"
#include "kernwright/runtime.hpp"

namespace kernwright {

/// One device. Its primary context, which is shared with the CUDA runtime API and every engine in the process, is retained when first
/// needed (creating it takes hundreds of milliseconds) and released on destruction. Thread-safe.
class CudaDevice {
 public:
  CudaDevice(std::shared_ptr<const Driver> driver, CUdevice native, DeviceInfo info)
      : driver_(std::move(driver)), native_(native), info_(std::move(info)) {}
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  ~CudaDevice();

  [[nodiscard]] const Driver& driver() const noexcept { return *driver_; }
  [[nodiscard]] const DriverApi& api() const noexcept { return driver_->api(); }
  [[nodiscard]] CUdevice native() const noexcept { return native_; }
  [[nodiscard]] const DeviceInfo& info() const noexcept { return info_; }
  Result<CUcontext> primary_context();

 private:
  std::shared_ptr<const Driver> driver_;
  CUdevice native_;
  DeviceInfo info_;
  std::mutex mutex_;
  CUcontext primary_ = nullptr;
};

/// Makes a device's primary context current on this thread, and puts back what was current. Meanwhile the thread's driver calls are not
/// refused because some stream of the process captures (they touch private streams only), whatever that capture's mode.
class DeviceScope {
 public:
  static Result<DeviceScope> enter(CudaDevice& device);
  DeviceScope(DeviceScope&& other) noexcept : api_(std::exchange(other.api_, nullptr)), mode_(other.mode_) {}
  DeviceScope& operator=(DeviceScope&&) = delete;
  ~DeviceScope();

 private:
  DeviceScope(const DriverApi* api, CUstreamCaptureMode mode) noexcept : api_(api), mode_(mode) {}
  const DriverApi* api_;
  CUstreamCaptureMode mode_;  // what the thread had
};

/// Every device in the driver's order, `shared_memory_limit` applied. driver_unavailable where there is none.
Result<std::vector<std::shared_ptr<CudaDevice>>> enumerate_devices(const std::shared_ptr<const Driver>& driver,
                                                                   std::optional<Bytes> shared_memory_limit);

}  // namespace kernwright
