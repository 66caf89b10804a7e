// Memory, streams and events of the cuda backend.
#include <fmt/format.h>

#include "backend/cuda/cuda_backend.hpp"

namespace kernwright {

namespace {

CUdeviceptr address(const void* data) noexcept {
  return reinterpret_cast<CUdeviceptr>(data);
}
CUstream native(StreamHandle stream) noexcept {
  return static_cast<CUstream>(stream.native);
}

}  // namespace

template <class Call>
Result<> CudaBackend::with_device(DeviceId id, const char* what, Call&& call) {
  auto device = find(id);
  if (!device) return fail(std::move(device.error()));
  const auto scope = DeviceScope::enter(**device);
  if (!scope) return fail(Error(scope.error()));
  if (const CUresult result = call((*device)->api()); result != CUDA_SUCCESS)
    return fail((*device)->driver().error(result, fmt::format("{} on {}", what, to_string(id)), ErrorCode::invalid_argument));
  return {};
}

Result<void*> CudaBackend::allocate(DeviceId device, Bytes size) {
  CUdeviceptr data = 0;
  const std::string what = fmt::format("allocating {} bytes", size.count);
  // The driver refuses an allocation of nothing; one byte keeps the pointer unique and free() uniform.
  auto done = with_device(device, what.c_str(), [&](const DriverApi& api) {
    return api.mem_alloc(&data, static_cast<std::size_t>(size.count == 0 ? 1 : size.count));
  });
  if (!done) return fail(std::move(done.error()));
  return reinterpret_cast<void*>(data);
}

void CudaBackend::free(DeviceId device, void* data) noexcept {
  if (data == nullptr) return;
  (void)with_device(device, "freeing memory", [&](const DriverApi& api) { return api.mem_free(address(data)); });
}

// The driver's synchronous copies may return before the last bytes have arrived, and no stream of ours waits for the default stream:
// each copy is followed by a wait.
Result<> CudaBackend::copy_to_device(DeviceId device, void* to, std::span<const std::byte> from) {
  if (from.empty()) return {};
  return with_device(device, "copying to device memory", [&](const DriverApi& api) {
    const CUresult result = api.memcpy_htod(address(to), from.data(), from.size());
    return result == CUDA_SUCCESS ? api.stream_synchronize(nullptr) : result;
  });
}

Result<> CudaBackend::copy_from_device(DeviceId device, std::span<std::byte> to, const void* from) {
  if (to.empty()) return {};
  return with_device(device, "copying from device memory", [&](const DriverApi& api) {
    const CUresult result = api.memcpy_dtoh(to.data(), address(from), to.size());
    return result == CUDA_SUCCESS ? api.stream_synchronize(nullptr) : result;
  });
}

Result<> CudaBackend::copy_on_device(DeviceId device, void* to, const void* from, Bytes size, StreamHandle stream) {
  if (size.count == 0) return {};
  return with_device(device, "copying within device memory", [&](const DriverApi& api) {
    return api.memcpy_dtod_async(address(to), address(from), static_cast<std::size_t>(size.count), native(stream));
  });
}

Result<> CudaBackend::fill(DeviceId device, void* data, std::byte value, Bytes size) {
  if (size.count == 0) return {};
  return with_device(device, "filling device memory", [&](const DriverApi& api) {
    const CUresult result = api.memset_d8(address(data), static_cast<unsigned char>(value), static_cast<std::size_t>(size.count));
    return result == CUDA_SUCCESS ? api.stream_synchronize(nullptr) : result;
  });
}

Result<> CudaBackend::enqueue_zeros(DeviceId device, void* data, Bytes size, StreamHandle stream) {
  if (size.count == 0) return {};
  return with_device(device, "filling device memory with zeros behind a stream's work", [&](const DriverApi& api) {
    return api.memset_d8_async(address(data), 0, static_cast<std::size_t>(size.count), native(stream));
  });
}

Result<void*> CudaBackend::allocate_pinned(DeviceId device, Bytes size) {
  void* data = nullptr;
  const std::string what = fmt::format("allocating {} bytes of pinned host memory", size.count);
  auto done = with_device(device, what.c_str(), [&](const DriverApi& api) {
    return api.mem_host_alloc(&data, static_cast<std::size_t>(size.count == 0 ? 1 : size.count), 0);
  });
  if (!done) return fail(std::move(done.error()));
  return data;
}

void CudaBackend::free_pinned(DeviceId device, void* data) noexcept {
  if (data == nullptr) return;
  (void)with_device(device, "freeing pinned host memory", [&](const DriverApi& api) { return api.mem_free_host(data); });
}

Result<> CudaBackend::enqueue_copy_from_device(DeviceId device, const RowCopy& copy, StreamHandle stream) {
  if (copy.rows == 0 || copy.row_bytes == 0) return {};
  return with_device(device, "copying from device memory behind a stream's work", [&](const DriverApi& api) {
    // Not as one row of a 2D copy: a pitch may not pass 2 GiB, where a dense tensor may.
    if (copy.dense()) return api.memcpy_dtoh_async(copy.to, address(copy.from), copy.rows * copy.row_bytes, native(stream));
    CUDA_MEMCPY2D rows{};
    rows.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    rows.srcDevice = address(copy.from);
    rows.srcPitch = copy.from_pitch;
    rows.dstMemoryType = CU_MEMORYTYPE_HOST;
    rows.dstHost = copy.to;
    rows.dstPitch = copy.to_pitch;
    rows.WidthInBytes = copy.row_bytes;
    rows.Height = copy.rows;
    return api.memcpy_2d_async(&rows, native(stream));
  });
}

Result<StreamHandle> CudaBackend::create_stream(DeviceId device) {
  CUstream stream = nullptr;
  auto done =
      with_device(device, "creating a stream", [&](const DriverApi& api) { return api.stream_create(&stream, CU_STREAM_NON_BLOCKING); });
  if (!done) return fail(std::move(done.error()));
  return StreamHandle{stream};
}

void CudaBackend::destroy_stream(DeviceId device, StreamHandle stream) noexcept {
  if (stream.native == nullptr) return;
  (void)with_device(device, "destroying a stream", [&](const DriverApi& api) { return api.stream_destroy(native(stream)); });
}

Result<> CudaBackend::synchronize(DeviceId device, StreamHandle stream) {
  return with_device(device, "waiting for a stream", [&](const DriverApi& api) { return api.stream_synchronize(native(stream)); });
}

bool CudaBackend::is_capturing(StreamHandle stream) noexcept {
  // The stream brings its own context along; a default stream without a current context is not being captured by anyone.
  const auto devices = opened();
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (!devices || (*devices)->front()->api().stream_is_capturing(native(stream), &status) != CUDA_SUCCESS) return false;
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

Result<void*> CudaBackend::create_event(DeviceId device) {
  CUevent event = nullptr;
  auto done = with_device(device, "creating an event", [&](const DriverApi& api) { return api.event_create(&event, CU_EVENT_DEFAULT); });
  if (!done) return fail(std::move(done.error()));
  return static_cast<void*>(event);
}

void CudaBackend::destroy_event(DeviceId device, void* event) noexcept {
  if (event == nullptr) return;
  (void)with_device(device, "destroying an event", [&](const DriverApi& api) { return api.event_destroy(static_cast<CUevent>(event)); });
}

Result<> CudaBackend::record_event(DeviceId device, void* event, StreamHandle stream) {
  return with_device(device, "recording an event",
                     [&](const DriverApi& api) { return api.event_record(static_cast<CUevent>(event), native(stream)); });
}

Result<> CudaBackend::enqueue_wait(DeviceId device, StreamHandle stream, void* event) {
  return with_device(device, "making a stream wait for an event", [&](const DriverApi& api) {
    return api.stream_wait_event(native(stream), static_cast<CUevent>(event), CU_EVENT_WAIT_DEFAULT);
  });
}

Result<> CudaBackend::wait_for_event(DeviceId device, void* event) {
  return with_device(device, "waiting for an event",
                     [&](const DriverApi& api) { return api.event_synchronize(static_cast<CUevent>(event)); });
}

Result<double> CudaBackend::elapsed_milliseconds(DeviceId device, void* start, void* stop) {
  float milliseconds = 0;
  auto done = with_device(device, "reading the time between two events", [&](const DriverApi& api) {
    for (void* event : {start, stop}) {
      if (const CUresult result = api.event_synchronize(static_cast<CUevent>(event)); result != CUDA_SUCCESS) return result;
    }
    return api.event_elapsed_time(&milliseconds, static_cast<CUevent>(start), static_cast<CUevent>(stop));
  });
  if (!done) return fail(std::move(done.error()));
  return static_cast<double>(milliseconds);
}

}  // namespace kernwright
