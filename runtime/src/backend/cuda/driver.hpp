// The CUDA driver, opened at run time.
#pragma once

#include <cuda.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "backend/cuda/dynamic_library.hpp"
#include "kernwright/result.hpp"

namespace kernwright {

/// The driver's entry points, typed by cuda.h; all of them are there once the driver is open.
/// cuStreamGetDevice (CUDA 12.8) is left out on purpose: on a capturing stream it answers CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED and
/// invalidates the capture (driver 580), where cuStreamGetCtx is allowed.
struct DriverApi {
  decltype(&::cuInit) init = nullptr;
  decltype(&::cuDriverGetVersion) driver_get_version = nullptr;
  decltype(&::cuGetErrorName) get_error_name = nullptr;
  decltype(&::cuGetErrorString) get_error_string = nullptr;
  decltype(&::cuDeviceGetCount) device_get_count = nullptr;
  decltype(&::cuDeviceGet) device_get = nullptr;
  decltype(&::cuDeviceGetName) device_get_name = nullptr;
  decltype(&::cuDeviceGetAttribute) device_get_attribute = nullptr;
  decltype(&::cuDeviceTotalMem) device_total_mem = nullptr;
  decltype(&::cuDeviceGetPCIBusId) device_get_pci_bus_id = nullptr;
  decltype(&::cuDevicePrimaryCtxRetain) device_primary_ctx_retain = nullptr;
  decltype(&::cuDevicePrimaryCtxRelease) device_primary_ctx_release = nullptr;
  decltype(&::cuCtxPushCurrent) ctx_push_current = nullptr;
  decltype(&::cuCtxPopCurrent) ctx_pop_current = nullptr;
  decltype(&::cuCtxGetCurrent) ctx_get_current = nullptr;
  decltype(&::cuCtxGetDevice) ctx_get_device = nullptr;
  decltype(&::cuMemAlloc) mem_alloc = nullptr;
  decltype(&::cuMemFree) mem_free = nullptr;
  decltype(&::cuMemcpyHtoD) memcpy_htod = nullptr;
  decltype(&::cuMemcpyDtoH) memcpy_dtoh = nullptr;
  decltype(&::cuMemcpyDtoDAsync) memcpy_dtod_async = nullptr;
  decltype(&::cuMemsetD8) memset_d8 = nullptr;
  decltype(&::cuMemsetD8Async) memset_d8_async = nullptr;
  decltype(&::cuMemHostAlloc) mem_host_alloc = nullptr;
  decltype(&::cuMemFreeHost) mem_free_host = nullptr;
  decltype(&::cuMemcpyDtoHAsync) memcpy_dtoh_async = nullptr;
  decltype(&::cuMemcpy2DAsync) memcpy_2d_async = nullptr;
  decltype(&::cuStreamCreate) stream_create = nullptr;
  decltype(&::cuStreamDestroy) stream_destroy = nullptr;
  decltype(&::cuStreamSynchronize) stream_synchronize = nullptr;
  decltype(&::cuStreamWaitEvent) stream_wait_event = nullptr;
  decltype(&::cuStreamGetCtx) stream_get_ctx = nullptr;
  decltype(&::cuStreamIsCapturing) stream_is_capturing = nullptr;
  decltype(&::cuThreadExchangeStreamCaptureMode) thread_exchange_stream_capture_mode = nullptr;
  decltype(&::cuEventCreate) event_create = nullptr;
  decltype(&::cuEventDestroy) event_destroy = nullptr;
  decltype(&::cuEventRecord) event_record = nullptr;
  decltype(&::cuEventSynchronize) event_synchronize = nullptr;
  decltype(&::cuEventElapsedTime) event_elapsed_time = nullptr;
  decltype(&::cuLibraryLoadData) library_load_data = nullptr;
  decltype(&::cuLibraryUnload) library_unload = nullptr;
  decltype(&::cuLibraryGetKernel) library_get_kernel = nullptr;
  decltype(&::cuKernelGetFunction) kernel_get_function = nullptr;
  decltype(&::cuKernelSetAttribute) kernel_set_attribute = nullptr;
  decltype(&::cuOccupancyMaxActiveBlocksPerMultiprocessor) occupancy = nullptr;
  decltype(&::cuLaunchKernel) launch_kernel = nullptr;
  decltype(&::cuLaunchKernelEx) launch_kernel_ex = nullptr;
};

/// An open, initialised driver. Thread-safe; shared by everything that calls it, so that it outlives the last kernel.
class Driver {
 public:
  /// The oldest driver that has context-independent loading (cuLibraryLoadData).
  static constexpr int kOldestVersion = 12000;

  /// Opens `path`, or libcuda.so.1 by the loader, and calls cuInit. driver_unavailable says what was looked for, what was found and what
  /// to do; nothing is kept of a failure, so a later call tries again.
  static Result<std::shared_ptr<const Driver>> open(const std::optional<std::filesystem::path>& path);

  [[nodiscard]] const DriverApi& api() const noexcept { return api_; }
  /// 1000·major + 10·minor, e.g. 13000.
  [[nodiscard]] int version() const noexcept { return version_; }
  [[nodiscard]] std::filesystem::path path() const { return library_.path(); }

  /// "CUDA_ERROR_INVALID_VALUE (1): invalid argument".
  [[nodiscard]] std::string describe(CUresult result) const;
  /// The error of a driver call that answered `result` (not success): error_code() or `otherwise`, with the message `what` and describe().
  [[nodiscard]] Error error(CUresult result, std::string_view what, ErrorCode otherwise) const;

 private:
  DynamicLibrary library_;
  DriverApi api_;
  int version_ = 0;
};

std::string cuda_version_text(int version);  ///< 13000: "13.0"

/// The code of a driver result whatever was being called; nothing where it depends on the call.
std::optional<ErrorCode> error_code(CUresult result) noexcept;

}  // namespace kernwright
