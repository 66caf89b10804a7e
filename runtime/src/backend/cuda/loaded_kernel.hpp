// A kernel loaded by the CUDA driver for one device.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "backend/backend.hpp"
#include "backend/cuda/devices.hpp"

namespace kernwright {

/// The CUDA half of LoadedKernel: a CUkernel of a library of its own, so that no other code changes its attributes.
class CudaLoadedKernel final : public LoadedKernel {
 public:
  /// Loads the artifact's cubin on `device`, whole and at once. load_failed, with the driver's words; out_of_memory; device_fault.
  static Result<std::unique_ptr<LoadedKernel>> load(std::shared_ptr<CudaDevice> device, const Artifact& artifact);
  CudaLoadedKernel(const CudaLoadedKernel&) = delete;
  CudaLoadedKernel& operator=(const CudaLoadedKernel&) = delete;
  ~CudaLoadedKernel() override;

  Result<> fit(const Plan& plan) override;
  int launch(const Grid& grid, const Plan& plan, const void* params, void* stream) noexcept override;
  Error explain(int status, const std::string& what, void* stream) override;

  /// The statuses of launch() that are not the driver's.
  static constexpr int kStreamOfAnotherDevice = -1;
  static constexpr int kContextOfAnotherDevice = -2;

 private:
  CudaLoadedKernel(std::shared_ptr<CudaDevice> device, CUlibrary library, CUkernel kernel, const Artifact& artifact);

  Result<> raise_shared_memory(const Plan& plan);
  Result<> check_occupancy(const Plan& plan);
  Result<> probe(const Plan& plan);
  CUresult enqueue(const Grid& grid, const Plan& plan, const void* params, CUstream stream) const noexcept;
  // The device of a stream that is not one of the default streams.
  CUresult stream_device(CUstream stream, CUdevice& device) const noexcept;
  int launch_on_default_stream(const Grid& grid, const Plan& plan, const void* params, CUstream stream) const noexcept;
  [[nodiscard]] std::string where() const;

  std::shared_ptr<CudaDevice> device_;
  const DriverApi& api_;
  CUlibrary library_;
  CUkernel kernel_;
  CUcontext primary_;
  CUdevice native_device_;
  std::string name_;  // template and tile, for messages
  Bytes static_shared_;
  int registers_;
  std::mutex mutex_;
  int dynamic_shared_limit_ = 0;  // what this kernel's attribute was raised to; guarded by mutex_
};

}  // namespace kernwright
