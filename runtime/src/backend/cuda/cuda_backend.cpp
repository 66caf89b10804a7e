#include "backend/cuda/cuda_backend.hpp"

#include <fmt/format.h>

#include "backend/backends.hpp"
#include "backend/cuda/loaded_kernel.hpp"
#include "backend/cuda/nvrtc_compiler.hpp"

namespace kernwright {

std::shared_ptr<Backend> make_cuda_backend(const RuntimeOptions& options, Logger logger) {
  return std::make_shared<CudaBackend>(options, std::move(logger));
}

CudaBackend::CudaBackend(const RuntimeOptions& options, Logger logger)
    : driver_path_(options.cuda_driver),
      shared_memory_limit_(options.shared_memory_limit),
      compiler_(std::make_unique<NvrtcCompiler>(NvrtcSearch::from_process(options), options.compile_time_limit_seconds, std::move(logger),
                                                options.compiles_at_once)) {}

Result<std::shared_ptr<const CudaBackend::Devices>> CudaBackend::opened() {
  const std::lock_guard lock(mutex_);
  if (devices_ == nullptr) {
    auto driver = Driver::open(driver_path_);
    if (!driver) return fail(std::move(driver.error()));
    auto devices = enumerate_devices(*driver, shared_memory_limit_);
    if (!devices) return fail(std::move(devices.error()));
    devices_ = std::make_shared<const Devices>(std::move(*devices));
  }
  return devices_;
}

Result<std::vector<DeviceInfo>> CudaBackend::devices() {
  auto devices = opened();
  if (!devices) return fail(std::move(devices.error()));
  std::vector<DeviceInfo> infos;
  for (const auto& device : **devices) infos.push_back(device->info());
  return infos;
}

Result<std::shared_ptr<CudaDevice>> CudaBackend::find(DeviceId id) {
  if (id.backend != BackendKind::cuda)
    return fail(ErrorCode::invalid_argument, fmt::format("device '{}' was given to the cuda backend", to_string(id)));
  auto opened_devices = opened();
  if (!opened_devices) return fail(std::move(opened_devices.error()));
  const Devices& devices = **opened_devices;
  if (id.ordinal < 0 || static_cast<std::size_t>(id.ordinal) >= devices.size()) {
    return fail(ErrorCode::not_found, fmt::format("there is no device '{}': the driver has {} (cuda:0 to cuda:{})", to_string(id),
                                                  devices.size(), devices.size() - 1));
  }
  return devices[static_cast<std::size_t>(id.ordinal)];
}

Result<std::unique_ptr<LoadedKernel>> CudaBackend::load(const DeviceInfo& device, const Artifact& artifact) {
  auto found = find(device.id);
  if (!found) return fail(std::move(found.error()));
  return CudaLoadedKernel::load(std::move(*found), artifact);
}

}  // namespace kernwright
