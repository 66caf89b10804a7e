#include "backend/cuda/driver.hpp"

#include <fmt/format.h>

namespace kernwright {

namespace {

struct Missing {
  std::string names;
  void add(const char* name) { names += fmt::format("{}{}", names.empty() ? "" : ", ", name); }
};

template <class Function>
bool find(const DynamicLibrary& library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(library.find(name));
  return function != nullptr;
}

// The exported names carry the version that cuda.h's macros choose; cuda.h cannot tell them to dlsym.
DriverApi resolve(const DynamicLibrary& library, Missing& missing) {
  DriverApi api;
  const auto required = [&](auto& function, const char* name) {
    if (!find(library, function, name)) missing.add(name);
  };
  required(api.init, "cuInit");
  required(api.driver_get_version, "cuDriverGetVersion");
  required(api.get_error_name, "cuGetErrorName");
  required(api.get_error_string, "cuGetErrorString");
  required(api.device_get_count, "cuDeviceGetCount");
  required(api.device_get, "cuDeviceGet");
  required(api.device_get_name, "cuDeviceGetName");
  required(api.device_get_attribute, "cuDeviceGetAttribute");
  required(api.device_total_mem, "cuDeviceTotalMem_v2");
  required(api.device_get_pci_bus_id, "cuDeviceGetPCIBusId");
  required(api.device_primary_ctx_retain, "cuDevicePrimaryCtxRetain");
  required(api.device_primary_ctx_release, "cuDevicePrimaryCtxRelease_v2");
  required(api.ctx_push_current, "cuCtxPushCurrent_v2");
  required(api.ctx_pop_current, "cuCtxPopCurrent_v2");
  required(api.ctx_get_current, "cuCtxGetCurrent");
  required(api.ctx_get_device, "cuCtxGetDevice");
  required(api.mem_alloc, "cuMemAlloc_v2");
  required(api.mem_free, "cuMemFree_v2");
  required(api.memcpy_htod, "cuMemcpyHtoD_v2");
  required(api.memcpy_dtoh, "cuMemcpyDtoH_v2");
  required(api.mem_host_alloc, "cuMemHostAlloc");
  required(api.mem_free_host, "cuMemFreeHost");
  required(api.memcpy_dtoh_async, "cuMemcpyDtoHAsync_v2");
  required(api.memcpy_2d_async, "cuMemcpy2DAsync_v2");
  required(api.memcpy_dtod_async, "cuMemcpyDtoDAsync_v2");
  required(api.memset_d8, "cuMemsetD8_v2");
  required(api.memset_d8_async, "cuMemsetD8Async");
  required(api.stream_create, "cuStreamCreate");
  required(api.stream_destroy, "cuStreamDestroy_v2");
  required(api.stream_synchronize, "cuStreamSynchronize");
  required(api.stream_wait_event, "cuStreamWaitEvent");
  required(api.stream_get_ctx, "cuStreamGetCtx");
  required(api.stream_is_capturing, "cuStreamIsCapturing");
  required(api.thread_exchange_stream_capture_mode, "cuThreadExchangeStreamCaptureMode");
  required(api.event_create, "cuEventCreate");
  required(api.event_destroy, "cuEventDestroy_v2");
  required(api.event_record, "cuEventRecord");
  required(api.event_synchronize, "cuEventSynchronize");
  // _v2 (CUDA 12.8) differs from the first only in what it answers for events of a dead context.
  if (!find(library, api.event_elapsed_time, "cuEventElapsedTime_v2")) required(api.event_elapsed_time, "cuEventElapsedTime");
  required(api.library_load_data, "cuLibraryLoadData");
  required(api.library_unload, "cuLibraryUnload");
  required(api.library_get_kernel, "cuLibraryGetKernel");
  required(api.kernel_get_function, "cuKernelGetFunction");
  required(api.kernel_set_attribute, "cuKernelSetAttribute");
  required(api.occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  required(api.launch_kernel, "cuLaunchKernel");
  required(api.launch_kernel_ex, "cuLaunchKernelEx");
  return api;
}

std::string advice_for_init(CUresult result) {
  switch (result) {
    case CUDA_ERROR_NO_DEVICE:
      return "no CUDA device is visible: check `nvidia-smi` and CUDA_VISIBLE_DEVICES, and in a container that it was started with its GPUs";
    case CUDA_ERROR_STUB_LIBRARY:
      return "this is the toolkit's stub for linking, not a driver: remove its folder from LD_LIBRARY_PATH or name the driver's own "
             "libcuda.so.1 in KERNWRIGHT_CUDA_DRIVER";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      return "libcuda.so.1 and the kernel module are of different releases: restart after a driver update, and mount the host's driver "
             "into a container";
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      return "the forward-compatibility libcuda.so.1 does not serve this device: remove its folder from LD_LIBRARY_PATH";
    case CUDA_ERROR_NOT_INITIALIZED:
      return "the driver does not work in a child process made by fork() after CUDA was used: start the child with exec, or fork before "
             "the first CUDA call";
    case CUDA_ERROR_SYSTEM_NOT_READY: return "the fabric manager or another system service of the driver is not running";
    default: return "check that the NVIDIA driver is installed and loaded (`nvidia-smi`)";
  }
}

}  // namespace

std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::optional<ErrorCode> error_code(CUresult result) noexcept {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY: return ErrorCode::out_of_memory;
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: return ErrorCode::does_not_fit;
    // The context is lost: cuda.h says of each of these that the process must be ended to use CUDA again.
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED: return ErrorCode::device_fault;
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_MERGE:
    case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
    case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
    case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
    case CUDA_ERROR_CAPTURED_EVENT:
    case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD: return ErrorCode::capturing;
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE: return ErrorCode::driver_unavailable;
    default: return std::nullopt;
  }
}

Result<std::shared_ptr<const Driver>> Driver::open(const std::optional<std::filesystem::path>& path) {
  const std::string name = path && !path->empty() ? path->string() : "libcuda.so.1";
  auto library = DynamicLibrary::open(name, DynamicLibrary::Lifetime::resident);
  if (!library) {
    return fail(
        ErrorCode::driver_unavailable,
        fmt::format("the CUDA driver could not be opened: looked for {} ({}), and the loader says: {}. Install the NVIDIA driver, in "
                    "a container start it with its GPUs, or name the library in KERNWRIGHT_CUDA_DRIVER; without a GPU the device "
                    "'host' must be asked for by name",
                    name, path ? "named by the options or KERNWRIGHT_CUDA_DRIVER" : "on the loader's path", library.error().message));
  }
  auto driver = std::make_shared<Driver>();
  driver->library_ = std::move(*library);
  const std::string found = driver->path().empty() ? name : driver->path().string();

  Missing missing;
  driver->api_ = resolve(driver->library_, missing);
  const DriverApi& api = driver->api_;
  // Asked before the rest is required: "too old" says more than a list of names.
  if (api.driver_get_version == nullptr || api.driver_get_version(&driver->version_) != CUDA_SUCCESS)
    return fail(ErrorCode::driver_unavailable, fmt::format("{} is not a CUDA driver: it does not tell its version", found));
  if (driver->version_ < kOldestVersion) {
    return fail(
        ErrorCode::driver_unavailable,
        fmt::format("the CUDA driver {} supports CUDA {}; 12.0 or later is needed (a driver of release 525 or later). Update the driver",
                    found, cuda_version_text(driver->version_)));
  }
  if (!missing.names.empty()) {
    return fail(ErrorCode::driver_unavailable,
                fmt::format("the CUDA driver {} (CUDA {}) does not export {}. It is damaged or not NVIDIA's; reinstall the driver", found,
                            cuda_version_text(driver->version_), missing.names));
  }
  if (const CUresult result = api.init(0); result != CUDA_SUCCESS) {
    return fail(ErrorCode::driver_unavailable,
                fmt::format("the CUDA driver {} (CUDA {}) does not start: {}; {}", found, cuda_version_text(driver->version_),
                            driver->describe(result), advice_for_init(result)));
  }
  return driver;
}

std::string Driver::describe(CUresult result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (api_.get_error_name(result, &name) != CUDA_SUCCESS || name == nullptr) name = "unknown result";
  if (api_.get_error_string(result, &text) != CUDA_SUCCESS || text == nullptr) text = "the driver has no text for it";
  return fmt::format("{} ({}): {}", name, static_cast<int>(result), text);
}

Error Driver::error(CUresult result, std::string_view what, ErrorCode otherwise) const {
  const ErrorCode code = error_code(result).value_or(otherwise);
  std::string message = fmt::format("{}: the driver answers {}", what, describe(result));
  if (code == ErrorCode::device_fault) message += ". The device's context is lost: nothing more can run in this process";
  return Error{code, std::move(message), {}};
}

}  // namespace kernwright
