#include "fake_driver/fake_cuda.hpp"

#include <elf.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

namespace fake_cuda {
namespace {

constexpr std::array kFunctions{"cuInit",
                                "cuDriverGetVersion",
                                "cuGetErrorName",
                                "cuGetErrorString",
                                "cuDeviceGetCount",
                                "cuDeviceGet",
                                "cuDeviceGetName",
                                "cuDeviceGetAttribute",
                                "cuDeviceTotalMem",
                                "cuDeviceGetPCIBusId",
                                "cuDevicePrimaryCtxRetain",
                                "cuDevicePrimaryCtxRelease",
                                "cuCtxPushCurrent",
                                "cuCtxPopCurrent",
                                "cuCtxGetCurrent",
                                "cuCtxGetDevice",
                                "cuMemAlloc",
                                "cuMemFree",
                                "cuMemcpyHtoD",
                                "cuMemcpyDtoH",
                                "cuMemcpyDtoDAsync",
                                "cuMemsetD8",
                                "cuMemsetD8Async",
                                "cuMemHostAlloc",
                                "cuMemFreeHost",
                                "cuMemcpyDtoHAsync",
                                "cuMemcpy2DAsync",
                                "cuStreamCreate",
                                "cuStreamDestroy",
                                "cuStreamSynchronize",
                                "cuStreamWaitEvent",
                                "cuStreamGetCtx",
                                "cuStreamGetDevice",
                                "cuStreamIsCapturing",
                                "cuThreadExchangeStreamCaptureMode",
                                "cuEventCreate",
                                "cuEventDestroy",
                                "cuEventRecord",
                                "cuEventSynchronize",
                                "cuEventElapsedTime",
                                "cuLibraryLoadData",
                                "cuLibraryUnload",
                                "cuLibraryGetKernel",
                                "cuKernelGetFunction",
                                "cuKernelSetAttribute",
                                "cuOccupancyMaxActiveBlocksPerMultiprocessor",
                                "cuLaunchKernel",
                                "cuLaunchKernelEx"};

constexpr std::size_t index_of(std::string_view name) {
  for (std::size_t i = 0; i < kFunctions.size(); ++i) {
    if (name == kFunctions[i]) return i;
  }
  return kFunctions.size();
}

// Atomic throughout, so that a launch here takes no lock either and a test can count the runtime's own.
struct Script {
  std::atomic<int> calls{0};
  std::atomic<int> skip{0};
  std::atomic<int> times{0};
  std::atomic<int> result{0};
};

struct Context {
  int device = 0;
};
struct Stream {
  int device = 0;
  std::atomic<bool> capturing{false};
};
struct Kernel {
  std::atomic<int> dynamic_limit{0};
};
struct Library {
  std::string data;
  bool real_cubin = false;
  std::vector<std::unique_ptr<Kernel>> kernels;
};

constexpr std::size_t kKeptLaunches = 4096;
constexpr int kUnraisedShared = 48 * 1024;
[[maybe_unused]] constexpr std::size_t kLargestImage = 1 << 20;

struct State {
  std::array<Script, kFunctions.size()> scripts;
  int version = 13000;
  std::vector<Device> devices{Device{}};
  std::vector<Context> contexts{Context{}};
  std::atomic<std::size_t> params_bytes{0};
  std::atomic<int> static_shared{0};
  std::atomic<int> occupancy{-1};
  std::atomic<bool> fault_next{false};
  std::atomic<bool> faulted{false};
  std::atomic<bool> global_capture{false};
  std::atomic<bool> broken{false};
  std::array<Launch, kKeptLaunches> launches;
  std::atomic<std::size_t> launch_count{0};
  mutable std::mutex mutex;
  std::vector<int> limits;  // guarded by mutex, as is what follows
  std::map<CUstream, std::unique_ptr<Stream>> streams;
  std::map<CUlibrary, std::unique_ptr<Library>> libraries;
  std::map<CUdeviceptr, std::unique_ptr<unsigned char[]>> memory;
  std::map<void*, std::unique_ptr<unsigned char[]>> pinned;
  std::map<CUevent, std::unique_ptr<int>> events;
  int retained = 0;
  bool initialised = false;
};

State& state() {
  static auto* const instance = [] {
    auto* const made = new State;
    // A process that no test speaks to may be given more devices by its environment.
    const char* const count = std::getenv("KERNWRIGHT_FAKE_CUDA_DEVICES");
    const long devices = count == nullptr ? 1 : std::strtol(count, nullptr, 10);
    for (int i = 1; i < devices; ++i) {
      made->devices.emplace_back();
      made->contexts.push_back(Context{i});
    }
    return made;
  }();
  return *instance;
}

thread_local std::vector<Context*> context_stack;
thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// Counts the call; true where the script answers it.
bool scripted(std::size_t function, CUresult& result) {
  Script& script = state().scripts[function];
  script.calls.fetch_add(1);
  if (script.times.load() == 0) return false;
  if (script.skip.load() > 0) {
    script.skip.fetch_sub(1);
    return false;
  }
  script.times.fetch_sub(1);
  result = static_cast<CUresult>(script.result.load());
  return true;
}

// cuda.h, "CUstreamCaptureMode": a potentially unsafe call is refused, and the capture spoilt, unless the thread is relaxed.
bool refused_by_capture() {
  if (!state().global_capture || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  state().broken = true;
  return true;
}

int device_of_stream(CUstream stream) {
  if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
    return context_stack.empty() || context_stack.back() == nullptr ? -1 : context_stack.back()->device;
  return reinterpret_cast<Stream*>(stream)->device;
}

CUresult launch(const CUlaunchConfig& config, CUfunction function, void** params) {
  State& s = state();
  if (s.faulted) return CUDA_ERROR_ILLEGAL_ADDRESS;
  const int device = device_of_stream(config.hStream);
  if (device < 0) return CUDA_ERROR_INVALID_CONTEXT;
  const Device& properties = s.devices[static_cast<std::size_t>(device)];
  const auto* kernel = reinterpret_cast<const Kernel*>(function);
  const int allowed = std::max(kernel->dynamic_limit.load(), kUnraisedShared - s.static_shared.load());
  if (config.gridDimX == 0 || config.gridDimY == 0 || config.gridDimZ == 0 || config.gridDimY > 65535 || config.gridDimZ > 65535 ||
      config.blockDimX == 0 || config.blockDimX > static_cast<unsigned>(properties.max_threads) ||
      config.sharedMemBytes > static_cast<unsigned>(allowed))
    return CUDA_ERROR_INVALID_VALUE;
  Launch record;
  record.grid[0] = config.gridDimX;
  record.grid[1] = config.gridDimY;
  record.grid[2] = config.gridDimZ;
  record.block = config.blockDimX * config.blockDimY * config.blockDimZ;
  record.shared = config.sharedMemBytes;
  record.stream = config.hStream;
  record.device = device;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) record.cluster = config.attrs[i].value.clusterDim.x;
    if (config.attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      record.programmatic = config.attrs[i].value.programmaticStreamSerializationAllowed != 0;
  }
  if (record.cluster > 1 && config.gridDimX % record.cluster != 0) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  std::memcpy(record.params, params[0], std::min(sizeof(record.params), s.params_bytes.load()));
  const std::size_t slot = s.launch_count.fetch_add(1);
  if (slot < kKeptLaunches) s.launches[slot] = record;
  if (s.fault_next.exchange(false)) s.faulted = true;
  return CUDA_SUCCESS;
}

class ControlImplementation final : public Control {
 public:
  void reset() override {
    State& s = state();
    for (Script& script : s.scripts) {
      script.calls = 0;
      script.skip = 0;
      script.times = 0;
    }
    s.version = 13000;
    set_devices({Device{}});
    s.params_bytes = 0;
    s.static_shared = 0;
    s.occupancy = -1;
    s.fault_next = false;
    s.faulted = false;
    s.global_capture = false;
    s.broken = false;
    s.launch_count = 0;
    const std::lock_guard lock(s.mutex);
    s.limits.clear();
    s.streams.clear();
    context_stack.clear();
    thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  }
  void set_version(int version) override { state().version = version; }
  void set_devices(std::vector<Device> devices) override {
    state().devices = std::move(devices);
    state().contexts.clear();
    for (std::size_t i = 0; i < state().devices.size(); ++i) state().contexts.push_back(Context{static_cast<int>(i)});
  }
  void set_params_bytes(std::size_t bytes) override { state().params_bytes = bytes; }
  void set_static_shared(int bytes) override { state().static_shared = bytes; }
  void set_occupancy(int blocks) override { state().occupancy = blocks; }
  void script(const char* function, CUresult result, int times, int skip) override {
    Script& script = state().scripts.at(index_of(function));
    script.result = static_cast<int>(result);
    script.skip = skip;
    script.times = times;
  }
  void fault_on_next_launch() override { state().fault_next = true; }
  void set_global_capture(bool on) override { state().global_capture = on; }
  bool capture_broken() const override { return state().broken; }
  void set_stream_capturing(CUstream stream, bool on) override { reinterpret_cast<Stream*>(stream)->capturing = on; }
  int calls(const char* function) const override { return state().scripts.at(index_of(function)).calls; }
  std::vector<Launch> launches() const override {
    const std::size_t count = std::min(state().launch_count.load(), kKeptLaunches);
    return {state().launches.begin(), state().launches.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  std::vector<int> shared_memory_limits() const override {
    const std::lock_guard lock(state().mutex);
    return state().limits;
  }
  int retained_contexts() const override {
    const std::lock_guard lock(state().mutex);
    return state().retained;
  }
  int loaded_libraries() const override {
    const std::lock_guard lock(state().mutex);
    return static_cast<int>(state().libraries.size());
  }
  int live_streams() const override {
    const std::lock_guard lock(state().mutex);
    return static_cast<int>(state().streams.size());
  }
  CUstream make_stream(int device) override {
    auto stream = std::make_unique<Stream>();
    stream->device = device;
    const auto handle = reinterpret_cast<CUstream>(stream.get());
    const std::lock_guard lock(state().mutex);
    state().streams[handle] = std::move(stream);
    return handle;
  }
  void make_current(int device) override {
    context_stack.clear();
    if (device >= 0) context_stack.push_back(&state().contexts.at(static_cast<std::size_t>(device)));
  }
  int current_device() const override { return context_stack.empty() ? -1 : context_stack.back()->device; }
  std::size_t stack_depth() const override { return context_stack.size(); }
  CUstreamCaptureMode capture_mode() const override { return thread_mode; }
};

}  // namespace
}  // namespace fake_cuda

using namespace fake_cuda;

// Every entry counts itself and lets the script answer first. The names are those that cuda.h's macros make of the plain ones.
#define FAKE_ENTER(name)                                 \
  CUresult scripted_result = CUDA_SUCCESS;               \
  constexpr std::size_t function_index = index_of(name); \
  static_assert(function_index < kFunctions.size());     \
  if (scripted(function_index, scripted_result)) return scripted_result

#define FAKE_NEEDS_CONTEXT()                                    \
  if (context_stack.empty()) return CUDA_ERROR_INVALID_CONTEXT; \
  if (state().faulted) return CUDA_ERROR_ILLEGAL_ADDRESS

extern "C" {

__attribute__((visibility("default"))) Control* fake_cuda_control() {
  static ControlImplementation control;
  return &control;
}

// NVRTC asks for it when its own cache is on, and crashes where it is absent.
CUresult cuGetExportTable(const void** table, const CUuuid*) {
  *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuInit(unsigned) {
  FAKE_ENTER("cuInit");
  if (state().devices.empty()) return CUDA_ERROR_NO_DEVICE;
  state().initialised = true;
  return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int* version) {
  FAKE_ENTER("cuDriverGetVersion");
  *version = state().version;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult error, const char** text) {
  FAKE_ENTER("cuGetErrorName");
  switch (error) {
    case CUDA_ERROR_INVALID_VALUE: *text = "CUDA_ERROR_INVALID_VALUE"; break;
    case CUDA_ERROR_OUT_OF_MEMORY: *text = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case CUDA_ERROR_NO_DEVICE: *text = "CUDA_ERROR_NO_DEVICE"; break;
    case CUDA_ERROR_INVALID_IMAGE: *text = "CUDA_ERROR_INVALID_IMAGE"; break;
    case CUDA_ERROR_NO_BINARY_FOR_GPU: *text = "CUDA_ERROR_NO_BINARY_FOR_GPU"; break;
    case CUDA_ERROR_NOT_FOUND: *text = "CUDA_ERROR_NOT_FOUND"; break;
    case CUDA_ERROR_ILLEGAL_ADDRESS: *text = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: *text = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"; break;
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: *text = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"; break;
    default: *text = nullptr; return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult error, const char** text) {
  FAKE_ENTER("cuGetErrorString");
  *text = error == CUDA_ERROR_ILLEGAL_ADDRESS ? "an illegal memory access was encountered" : "fake text";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  FAKE_ENTER("cuDeviceGetCount");
  *count = static_cast<int>(state().devices.size());
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  FAKE_ENTER("cuDeviceGet");
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= state().devices.size()) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  FAKE_ENTER("cuDeviceGetName");
  std::strncpy(name, state().devices[static_cast<std::size_t>(device)].name.c_str(), static_cast<std::size_t>(length));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  FAKE_ENTER("cuDeviceGetAttribute");
  const Device& d = state().devices[static_cast<std::size_t>(device)];
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = d.major; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = d.minor; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = d.shared_memory_optin; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = kUnraisedShared; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = d.max_threads; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = d.multiprocessors; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = d.l2; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice device) {
  FAKE_ENTER("cuDeviceTotalMem");
  *bytes = state().devices[static_cast<std::size_t>(device)].memory;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetPCIBusId(char* address, int length, CUdevice device) {
  FAKE_ENTER("cuDeviceGetPCIBusId");
  std::snprintf(address, static_cast<std::size_t>(length), "0000:%02x:00.0", static_cast<unsigned>(device) + 1);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  FAKE_ENTER("cuDevicePrimaryCtxRetain");
  if (refused_by_capture()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const std::lock_guard lock(state().mutex);
  ++state().retained;
  *context = reinterpret_cast<CUcontext>(&state().contexts[static_cast<std::size_t>(device)]);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) {
  FAKE_ENTER("cuDevicePrimaryCtxRelease");
  const std::lock_guard lock(state().mutex);
  --state().retained;
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext context) {
  FAKE_ENTER("cuCtxPushCurrent");
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  context_stack.push_back(reinterpret_cast<Context*>(context));
  return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent(CUcontext* context) {
  FAKE_ENTER("cuCtxPopCurrent");
  if (context_stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = reinterpret_cast<CUcontext>(context_stack.back());
  context_stack.pop_back();
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  FAKE_ENTER("cuCtxGetCurrent");
  *context = context_stack.empty() ? nullptr : reinterpret_cast<CUcontext>(context_stack.back());
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* device) {
  FAKE_ENTER("cuCtxGetDevice");
  if (context_stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *device = context_stack.back()->device;
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr* data, std::size_t size) {
  FAKE_ENTER("cuMemAlloc");
  FAKE_NEEDS_CONTEXT();
  if (refused_by_capture()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (size > state().devices[static_cast<std::size_t>(context_stack.back()->device)].memory) return CUDA_ERROR_OUT_OF_MEMORY;
  auto block = std::make_unique<unsigned char[]>(size);
  *data = reinterpret_cast<CUdeviceptr>(block.get());
  const std::lock_guard lock(state().mutex);
  state().memory[*data] = std::move(block);
  return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr data) {
  FAKE_ENTER("cuMemFree");
  FAKE_NEEDS_CONTEXT();
  const std::lock_guard lock(state().mutex);
  return state().memory.erase(data) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, std::size_t size) {
  FAKE_ENTER("cuMemcpyHtoD");
  FAKE_NEEDS_CONTEXT();
  std::memcpy(reinterpret_cast<void*>(to), from, size);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, std::size_t size) {
  FAKE_ENTER("cuMemcpyDtoH");
  FAKE_NEEDS_CONTEXT();
  std::memcpy(to, reinterpret_cast<const void*>(from), size);
  return CUDA_SUCCESS;
}
// Copies behind a stream's work: everything here has happened once it was asked for.
CUresult cuMemHostAlloc(void** data, std::size_t size, unsigned) {
  FAKE_ENTER("cuMemHostAlloc");
  FAKE_NEEDS_CONTEXT();
  if (refused_by_capture()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  auto block = std::make_unique<unsigned char[]>(size);
  *data = block.get();
  const std::lock_guard lock(state().mutex);
  state().pinned[*data] = std::move(block);
  return CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void* data) {
  FAKE_ENTER("cuMemFreeHost");
  FAKE_NEEDS_CONTEXT();
  const std::lock_guard lock(state().mutex);
  return state().pinned.erase(data) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t size, CUstream) {
  FAKE_ENTER("cuMemcpyDtoHAsync");
  FAKE_NEEDS_CONTEXT();
  std::memcpy(to, reinterpret_cast<const void*>(from), size);
  return CUDA_SUCCESS;
}
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* copy, CUstream) {
  FAKE_ENTER("cuMemcpy2DAsync");
  FAKE_NEEDS_CONTEXT();
  if (copy->srcMemoryType != CU_MEMORYTYPE_DEVICE || copy->dstMemoryType != CU_MEMORYTYPE_HOST || copy->srcPitch < copy->WidthInBytes ||
      copy->dstPitch < copy->WidthInBytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (std::size_t row = 0; row < copy->Height; ++row) {
    std::memcpy(static_cast<unsigned char*>(copy->dstHost) + row * copy->dstPitch,
                reinterpret_cast<const unsigned char*>(copy->srcDevice) + row * copy->srcPitch, copy->WidthInBytes);
  }
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t size, CUstream) {
  FAKE_ENTER("cuMemcpyDtoDAsync");
  FAKE_NEEDS_CONTEXT();
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), size);
  return CUDA_SUCCESS;
}
CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, std::size_t size) {
  FAKE_ENTER("cuMemsetD8");
  FAKE_NEEDS_CONTEXT();
  std::memset(reinterpret_cast<void*>(to), value, size);
  return CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t size, CUstream) {
  FAKE_ENTER("cuMemsetD8Async");
  FAKE_NEEDS_CONTEXT();
  std::memset(reinterpret_cast<void*>(to), value, size);
  return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream* stream, unsigned) {
  FAKE_ENTER("cuStreamCreate");
  FAKE_NEEDS_CONTEXT();
  *stream = fake_cuda_control()->make_stream(context_stack.back()->device);
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream stream) {
  FAKE_ENTER("cuStreamDestroy");
  const std::lock_guard lock(state().mutex);
  return state().streams.erase(stream) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuStreamSynchronize(CUstream) {
  FAKE_ENTER("cuStreamSynchronize");
  if (state().faulted) return CUDA_ERROR_ILLEGAL_ADDRESS;
  return refused_by_capture() ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}
CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  FAKE_ENTER("cuStreamGetCtx");
  const int device = device_of_stream(stream);
  if (device < 0) return CUDA_ERROR_INVALID_CONTEXT;
  *context = reinterpret_cast<CUcontext>(&state().contexts[static_cast<std::size_t>(device)]);
  return CUDA_SUCCESS;
}
#ifndef FAKE_CUDA_OLD
CUresult cuStreamGetDevice(CUstream stream, CUdevice* device) {
  FAKE_ENTER("cuStreamGetDevice");
  // Seen with driver 580: refused on a capturing stream, whose capture is lost.
  if (stream != nullptr && reinterpret_cast<Stream*>(stream)->capturing) {
    state().broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  *device = device_of_stream(stream);
  return *device < 0 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}
#endif
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  FAKE_ENTER("cuStreamIsCapturing");
  const bool own = stream != nullptr && reinterpret_cast<Stream*>(stream)->capturing;
  *status = own ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  FAKE_ENTER("cuThreadExchangeStreamCaptureMode");
  std::swap(*mode, thread_mode);
  return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent* event, unsigned) {
  FAKE_ENTER("cuEventCreate");
  FAKE_NEEDS_CONTEXT();
  auto made = std::make_unique<int>(0);
  *event = reinterpret_cast<CUevent>(made.get());
  const std::lock_guard lock(state().mutex);
  state().events[*event] = std::move(made);
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent event) {
  FAKE_ENTER("cuEventDestroy");
  const std::lock_guard lock(state().mutex);
  return state().events.erase(event) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuEventRecord(CUevent event, CUstream) {
  FAKE_ENTER("cuEventRecord");
  *reinterpret_cast<int*>(event) = static_cast<int>(state().launch_count.load());
  return CUDA_SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream, CUevent event, unsigned) {
  FAKE_ENTER("cuStreamWaitEvent");
  const std::lock_guard lock(state().mutex);
  return state().events.contains(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuEventSynchronize(CUevent) {
  FAKE_ENTER("cuEventSynchronize");
  return state().faulted ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}
// A launch takes one millisecond here.
CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent stop) {
  FAKE_ENTER("cuEventElapsedTime");
  *milliseconds = static_cast<float>(*reinterpret_cast<int*>(stop) - *reinterpret_cast<int*>(start));
  return CUDA_SUCCESS;
}
#ifndef FAKE_CUDA_DAMAGED
// An image is "\x7fELF" and then the names of its kernels, each with a NUL; an empty name ends it. A real cubin (its fifth byte says 64
// bits) has every kernel that it is asked for.
CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned, CUlibraryOption*, void**, unsigned) {
  FAKE_ENTER("cuLibraryLoadData");
  if (refused_by_capture()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const auto* text = static_cast<const char*>(code);
  if (std::memcmp(text,
                  "\x7f"
                  "ELF",
                  4) != 0)
    return CUDA_ERROR_INVALID_IMAGE;
  auto made = std::make_unique<Library>();
  made->real_cubin = text[4] == ELFCLASS64;
  std::size_t size = 4;
  while (!made->real_cubin && size < kLargestImage && text[size] != '\0') size += std::strlen(text + size) + 1;
  made->data.assign(text, size);
  *library = reinterpret_cast<CUlibrary>(made.get());
  const std::lock_guard lock(state().mutex);
  state().libraries[*library] = std::move(made);
  return CUDA_SUCCESS;
}
#endif
CUresult cuLibraryUnload(CUlibrary library) {
  FAKE_ENTER("cuLibraryUnload");
  if (refused_by_capture()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const std::lock_guard lock(state().mutex);
  return state().libraries.erase(library) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  FAKE_ENTER("cuLibraryGetKernel");
  auto* loaded = reinterpret_cast<Library*>(library);
  bool found = loaded->real_cubin;
  for (std::size_t at = 4; at < loaded->data.size(); at += std::strlen(loaded->data.c_str() + at) + 1) {
    found |= std::strcmp(loaded->data.c_str() + at, name) == 0;
  }
  if (!found) return CUDA_ERROR_NOT_FOUND;
  loaded->kernels.push_back(std::make_unique<Kernel>());
  *kernel = reinterpret_cast<CUkernel>(loaded->kernels.back().get());
  return CUDA_SUCCESS;
}
CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  FAKE_ENTER("cuKernelGetFunction");
  FAKE_NEEDS_CONTEXT();
  if (refused_by_capture()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}
CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
  FAKE_ENTER("cuKernelSetAttribute");
  if (refused_by_capture()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_ERROR_INVALID_VALUE;
  if (value + state().static_shared > state().devices[static_cast<std::size_t>(device)].shared_memory_optin)
    return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(state().mutex);
  state().limits.push_back(value);
  reinterpret_cast<Kernel*>(kernel)->dynamic_limit = value;
  return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int, std::size_t dynamic_shared) {
  FAKE_ENTER("cuOccupancyMaxActiveBlocksPerMultiprocessor");
  FAKE_NEEDS_CONTEXT();
  const Device& device = state().devices[static_cast<std::size_t>(context_stack.back()->device)];
  const int shared = static_cast<int>(dynamic_shared) + state().static_shared;
  *blocks = state().occupancy >= 0 ? state().occupancy.load() : (shared > device.shared_memory_optin ? 0 : 1);
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                        unsigned block_z, unsigned shared, CUstream stream, void** params, void**) {
  FAKE_ENTER("cuLaunchKernel");
  CUlaunchConfig config{};
  config.gridDimX = grid_x;
  config.gridDimY = grid_y;
  config.gridDimZ = grid_z;
  config.blockDimX = block_x;
  config.blockDimY = block_y;
  config.blockDimZ = block_z;
  config.sharedMemBytes = shared;
  config.hStream = stream;
  return launch(config, function, params);
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** params, void**) {
  FAKE_ENTER("cuLaunchKernelEx");
  return launch(*config, function, params);
}

}  // extern "C"
