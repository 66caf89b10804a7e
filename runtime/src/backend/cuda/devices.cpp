#include "backend/cuda/devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kernwright {

CudaDevice::~CudaDevice() {
  // After the driver has shut down (a kernel in a static object) the call is refused, which is harmless.
  if (primary_ != nullptr) api().device_primary_ctx_release(native_);
}

Result<CUcontext> CudaDevice::primary_context() {
  const std::lock_guard lock(mutex_);
  if (primary_ == nullptr) {
    CUcontext context = nullptr;
    if (const CUresult result = api().device_primary_ctx_retain(&context, native_); result != CUDA_SUCCESS) {
      return fail(driver_->error(result, fmt::format("creating the primary context of {} ({})", to_string(info_.id), info_.name),
                                 ErrorCode::driver_unavailable));
    }
    primary_ = context;
  }
  return primary_;
}

Result<DeviceScope> DeviceScope::enter(CudaDevice& device) {
  const DriverApi& api = device.api();
  // Relaxed first: retaining a context may allocate, which a capture in global mode would refuse.
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (const CUresult result = api.thread_exchange_stream_capture_mode(&mode); result != CUDA_SUCCESS)
    return fail(device.driver().error(result, "changing this thread's stream capture mode", ErrorCode::internal));
  const auto context = device.primary_context();
  if (!context) {
    api.thread_exchange_stream_capture_mode(&mode);
    return fail(Error(context.error()));
  }
  if (const CUresult result = api.ctx_push_current(*context); result != CUDA_SUCCESS) {
    api.thread_exchange_stream_capture_mode(&mode);
    return fail(device.driver().error(result, fmt::format("making the context of {} current", to_string(device.info().id)),
                                      ErrorCode::driver_unavailable));
  }
  return DeviceScope(&api, mode);
}

DeviceScope::~DeviceScope() {
  if (api_ == nullptr) return;
  CUcontext popped = nullptr;
  api_->ctx_pop_current(&popped);
  api_->thread_exchange_stream_capture_mode(&mode_);
}

namespace {

Result<Target> device_target(int major, int minor) {
  auto target = Target::for_capability(major, minor);
  // Family targets begin with capability 10; an unlisted 8.x or 9.x has its own plain target.
  if (target && major < 10 && target->name().ends_with('f')) return Target::parse(fmt::format("sm_{}{}", major, minor));
  return target;
}

Result<DeviceInfo> describe_device(const Driver& driver, CUdevice native, int ordinal, std::optional<Bytes> shared_memory_limit) {
  const DriverApi& api = driver.api();
  const auto refused = [&](CUresult result, const char* what) {
    return fail(driver.error(result, fmt::format("asking CUDA device {} for {}", ordinal, what), ErrorCode::driver_unavailable));
  };
  std::array<char, 256> name{};
  if (const CUresult result = api.device_get_name(name.data(), static_cast<int>(name.size()) - 1, native); result != CUDA_SUCCESS)
    return refused(result, "its name");
  std::size_t memory = 0;
  if (const CUresult result = api.device_total_mem(&memory, native); result != CUDA_SUCCESS) return refused(result, "its memory size");

  struct Wanted {
    CUdevice_attribute attribute;
    const char* words;
    int value = 0;
  };
  std::array<Wanted, 6> wanted{{{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, "its compute capability"},
                                {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, "its compute capability"},
                                {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, "its opt-in shared memory"},
                                {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, "its largest block"},
                                {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, "its multiprocessors"},
                                {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, "its L2 size"}}};
  for (Wanted& item : wanted) {
    if (const CUresult result = api.device_get_attribute(&item.value, item.attribute, native); result != CUDA_SUCCESS)
      return refused(result, item.words);
  }

  DeviceInfo info;
  info.id = DeviceId::cuda(ordinal);
  info.name = name.data();
  info.capability_major = wanted[0].value;
  info.capability_minor = wanted[1].value;
  // One old card must not hide the others: below 8.0 it is listed without a target, and load() and the compiler refuse it by name.
  if (auto target = device_target(info.capability_major, info.capability_minor)) info.target = *target;
  info.shared_memory_per_block = Bytes{static_cast<std::uint64_t>(std::max(wanted[2].value, 0))};
  if (shared_memory_limit) info.shared_memory_per_block = std::min(info.shared_memory_per_block, *shared_memory_limit);
  info.max_threads_per_block = wanted[3].value;
  info.multiprocessors = wanted[4].value;
  info.l2 = Bytes{static_cast<std::uint64_t>(std::max(wanted[5].value, 0))};
  info.memory = Bytes{memory};
  return info;
}

}  // namespace

Result<std::vector<std::shared_ptr<CudaDevice>>> enumerate_devices(const std::shared_ptr<const Driver>& driver,
                                                                   std::optional<Bytes> shared_memory_limit) {
  const DriverApi& api = driver->api();
  int count = 0;
  if (const CUresult result = api.device_get_count(&count); result != CUDA_SUCCESS)
    return fail(driver->error(result, "counting the CUDA devices", ErrorCode::driver_unavailable));
  if (count <= 0) {
    return fail(
        ErrorCode::driver_unavailable,
        fmt::format("the CUDA driver {} finds no device: check `nvidia-smi` and CUDA_VISIBLE_DEVICES; without a GPU the device 'host' "
                    "must be asked for by name",
                    driver->path().string()));
  }
  std::vector<std::shared_ptr<CudaDevice>> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUdevice native = 0;
    if (const CUresult result = api.device_get(&native, ordinal); result != CUDA_SUCCESS)
      return fail(driver->error(result, fmt::format("opening CUDA device {} of {}", ordinal, count), ErrorCode::driver_unavailable));
    auto info = describe_device(*driver, native, ordinal, shared_memory_limit);
    if (!info) return fail(std::move(info.error()));
    devices.push_back(std::make_shared<CudaDevice>(driver, native, std::move(*info)));
  }
  return devices;
}

}  // namespace kernwright
