#include "backend/cuda/loaded_kernel.hpp"

#include <fmt/format.h>

#include <vector>

namespace kernwright {

namespace {

std::string artifact_name(const Artifact& artifact) {
  const BuildRequest& request = artifact.request;
  return fmt::format("{} {}", request.template_name, request.tiles.empty() ? std::string("(no tile)") : request.tiles.front().text());
}

// Compilers are named "nvrtc" with a version "13.0"; the driver counts 1000·major.
int compiler_major(const CompilerIdentity& compiler) {
  int major = 0;
  if (compiler.name != "nvrtc") return 0;
  for (const char c : compiler.version) {
    if (c < '0' || c > '9' || major > 1000) break;
    major = major * 10 + (c - '0');
  }
  return major;
}

Error load_error(const CudaDevice& device, const Artifact& artifact, CUresult result, std::string_view step) {
  const Driver& driver = device.driver();
  Error error = driver.error(result,
                             fmt::format("loading {} ({}) on {} ({}), {}", artifact_name(artifact), artifact.request.target.name(),
                                         to_string(device.info().id), device.info().name, step),
                             ErrorCode::load_failed);
  if (error.code == ErrorCode::load_failed && compiler_major(artifact.compiler) > driver.version() / 1000) {
    error.code = ErrorCode::unsupported;  // building anew would not help
    error.message += fmt::format(
        ". The driver supports CUDA {}, older than the NVRTC {} that compiled the kernel: update the driver, or name "
        "an NVRTC of the driver's version in KERNWRIGHT_NVRTC",
        cuda_version_text(driver.version()), artifact.compiler.version);
  }
  return error;
}

bool default_stream(CUstream stream) noexcept {
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

}  // namespace

Result<std::unique_ptr<LoadedKernel>> CudaLoadedKernel::load(std::shared_ptr<CudaDevice> device, const Artifact& artifact) {
  if (artifact.binary.empty() || artifact.request.entry.empty())
    return fail(ErrorCode::load_failed, fmt::format("{} holds no kernel to load", artifact_name(artifact)));
  if (device->info().capability_major < 8) {
    return fail(ErrorCode::unsupported,
                fmt::format("{} ({}) has compute capability {}.{}; kernels are compiled for 8.0 and later", to_string(device->info().id),
                            device->info().name, device->info().capability_major, device->info().capability_minor));
  }
  const auto scope = DeviceScope::enter(*device);
  if (!scope) return fail(Error(scope.error()));

  const DriverApi& api = device->api();
  CUlibrary library = nullptr;
  if (const CUresult result = api.library_load_data(&library, artifact.binary.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
      result != CUDA_SUCCESS)
    return fail(load_error(*device, artifact, result, "cuLibraryLoadData"));
  CUkernel kernel = nullptr;
  if (const CUresult result = api.library_get_kernel(&kernel, library, artifact.request.entry.c_str()); result != CUDA_SUCCESS) {
    api.library_unload(library);
    return fail(load_error(*device, artifact, result, fmt::format("entry '{}'", artifact.request.entry)));
  }
  auto loaded = std::unique_ptr<CudaLoadedKernel>(new CudaLoadedKernel(device, library, kernel, artifact));

  // A library is loaded lazily, at its first launch, which can deadlock behind a persistent kernel: asking for the function loads it now.
  CUfunction function = nullptr;
  if (const CUresult result = api.kernel_get_function(&function, kernel); result != CUDA_SUCCESS)
    return fail(load_error(*device, artifact, result, "cuKernelGetFunction"));
  auto context = device->primary_context();
  if (!context) return fail(std::move(context.error()));
  loaded->primary_ = *context;
  return loaded;
}

CudaLoadedKernel::CudaLoadedKernel(std::shared_ptr<CudaDevice> device, CUlibrary library, CUkernel kernel, const Artifact& artifact)
    : device_(std::move(device)),
      api_(device_->api()),
      library_(library),
      kernel_(kernel),
      primary_(nullptr),
      native_device_(device_->native()),
      name_(artifact_name(artifact)),
      static_shared_(artifact.resources.static_shared),
      registers_(artifact.resources.registers) {}

CudaLoadedKernel::~CudaLoadedKernel() {
  // Unloading may free device memory, which a global capture on another thread would refuse.
  const auto scope = DeviceScope::enter(*device_);
  api_.library_unload(library_);
}

std::string CudaLoadedKernel::where() const {
  return fmt::format("{} on {} ({})", name_, to_string(device_->info().id), device_->info().name);
}

Result<> CudaLoadedKernel::fit(const Plan& plan) {
  const DeviceInfo& info = device_->info();
  if (plan.threads <= 0 || plan.dynamic_shared < 0 || plan.params_bytes < 0 || plan.cluster < 1) {
    return fail(ErrorCode::load_failed,
                fmt::format("{}: the artifact's plan is not one ({} threads, {} bytes of shared memory, {} bytes of "
                            "parameters, cluster {})",
                            name_, plan.threads, plan.dynamic_shared, plan.params_bytes, plan.cluster));
  }
  const std::uint64_t shared = static_shared_.count + static_cast<std::uint64_t>(plan.dynamic_shared);
  if (shared > info.shared_memory_per_block.count) {
    return fail(ErrorCode::does_not_fit,
                fmt::format("{} asks for {} bytes of shared memory a block ({} static, {} dynamic); the limit is {}", where(), shared,
                            static_shared_.count, plan.dynamic_shared, info.shared_memory_per_block.count));
  }
  if (plan.threads > info.max_threads_per_block) {
    return fail(ErrorCode::does_not_fit,
                fmt::format("{} asks for {} threads a block; the limit is {}", where(), plan.threads, info.max_threads_per_block));
  }
  const auto scope = DeviceScope::enter(*device_);
  if (!scope) return fail(Error(scope.error()));
  if (auto raised = raise_shared_memory(plan); !raised) return raised;
  if (auto occupied = check_occupancy(plan); !occupied) return occupied;
  return probe(plan);
}

Result<> CudaLoadedKernel::raise_shared_memory(const Plan& plan) {
  // Under a lock, so that a smaller plan fitted at the same time on another thread cannot lower the limit in between.
  const std::lock_guard lock(mutex_);
  if (plan.dynamic_shared <= dynamic_shared_limit_) return {};
  const CUresult result =
      api_.kernel_set_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, plan.dynamic_shared, kernel_, native_device_);
  if (result != CUDA_SUCCESS) {
    // INVALID_VALUE is how the driver refuses a size above its limit; the arguments are otherwise known to be good.
    const std::string what =
        fmt::format("raising the shared-memory limit of {} to {} bytes ({} static)", where(), plan.dynamic_shared, static_shared_.count);
    Error error = device_->driver().error(result, what, ErrorCode::launch_failed);
    if (result == CUDA_ERROR_INVALID_VALUE) error.code = ErrorCode::does_not_fit;
    return fail(std::move(error));
  }
  dynamic_shared_limit_ = plan.dynamic_shared;
  return {};
}

Result<> CudaLoadedKernel::check_occupancy(const Plan& plan) {
  int blocks = 0;
  const CUresult result =
      api_.occupancy(&blocks, reinterpret_cast<CUfunction>(kernel_), plan.threads, static_cast<std::size_t>(plan.dynamic_shared));
  if (result != CUDA_SUCCESS)
    return fail(device_->driver().error(result, fmt::format("asking for the occupancy of {}", where()), ErrorCode::launch_failed));
  if (blocks >= 1) return {};
  return fail(ErrorCode::does_not_fit,
              fmt::format("no block of {} fits a multiprocessor (occupancy 0): {} threads of {} registers, {} + {} bytes "
                          "of shared memory",
                          where(), plan.threads, registers_, static_shared_.count, plan.dynamic_shared));
}

Result<> CudaLoadedKernel::probe(const Plan& plan) {
  const auto problem = [this](CUresult result, const char* what) {
    return fail(device_->driver().error(result, fmt::format("{} {}", what, where()), ErrorCode::launch_failed));
  };
  // All zero is an empty problem by the templates' contract. Bytes, not a type with padding, which would stay unwritten.
  const std::vector<std::byte> params(static_cast<std::size_t>(plan.params_bytes) + 1);
  CUstream stream = nullptr;
  if (const CUresult result = api_.stream_create(&stream, CU_STREAM_NON_BLOCKING); result != CUDA_SUCCESS)
    return problem(result, "creating the probe's stream for");
  CUresult result = enqueue(Grid{static_cast<std::uint32_t>(plan.cluster), 1, 1}, plan, params.data(), stream);
  if (result == CUDA_SUCCESS) result = api_.stream_synchronize(stream);
  api_.stream_destroy(stream);
  if (result != CUDA_SUCCESS) return problem(result, "the probe launch of");
  return {};
}

CUresult CudaLoadedKernel::enqueue(const Grid& grid, const Plan& plan, const void* params, CUstream stream) const noexcept {
  // The driver copies the parameters before it returns and writes nothing through this pointer.
  void* arguments[] = {const_cast<void*>(params)};
  const auto function = reinterpret_cast<CUfunction>(kernel_);  // cuda.h: launches take a CUkernel so, and the stream decides the context
  const auto threads = static_cast<unsigned>(plan.threads);
  const auto shared = static_cast<unsigned>(plan.dynamic_shared);
  if (plan.cluster <= 1 && plan.programmatic_launch == 0)
    return api_.launch_kernel(function, grid.x, grid.y, grid.z, threads, 1, 1, shared, stream, arguments, nullptr);

  CUlaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (plan.cluster > 1) {
    CUlaunchAttribute& attribute = attributes[count++];
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = static_cast<unsigned>(plan.cluster);
    attribute.value.clusterDim.y = 1;
    attribute.value.clusterDim.z = 1;
  }
  if (plan.programmatic_launch != 0) {
    CUlaunchAttribute& attribute = attributes[count++];
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
  }
  CUlaunchConfig config{};
  config.gridDimX = grid.x;
  config.gridDimY = grid.y;
  config.gridDimZ = grid.z;
  config.blockDimX = threads;
  config.blockDimY = 1;
  config.blockDimZ = 1;
  config.sharedMemBytes = shared;
  config.hStream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  return api_.launch_kernel_ex(&config, function, arguments, nullptr);
}

CUresult CudaLoadedKernel::stream_device(CUstream stream, CUdevice& device) const noexcept {
  CUcontext context = nullptr;
  if (const CUresult result = api_.stream_get_ctx(stream, &context); result != CUDA_SUCCESS) return result;
  if (context == primary_) {
    device = native_device_;
    return CUDA_SUCCESS;
  }
  if (const CUresult result = api_.ctx_push_current(context); result != CUDA_SUCCESS) return result;
  const CUresult result = api_.ctx_get_device(&device);
  CUcontext popped = nullptr;
  api_.ctx_pop_current(&popped);
  return result;
}

int CudaLoadedKernel::launch(const Grid& grid, const Plan& plan, const void* params, void* stream) noexcept {
  const auto native = static_cast<CUstream>(stream);
  if (default_stream(native)) return launch_on_default_stream(grid, plan, params, native);
  CUdevice device = -1;
  if (const CUresult result = stream_device(native, device); result != CUDA_SUCCESS) return static_cast<int>(result);
  if (device != native_device_) return kStreamOfAnotherDevice;
  return static_cast<int>(enqueue(grid, plan, params, native));
}

// A default stream belongs to whatever context is current, so its device can only be asked of the context.
int CudaLoadedKernel::launch_on_default_stream(const Grid& grid, const Plan& plan, const void* params, CUstream stream) const noexcept {
  CUcontext current = nullptr;
  if (const CUresult result = api_.ctx_get_current(&current); result != CUDA_SUCCESS) return static_cast<int>(result);
  if (current == primary_) return static_cast<int>(enqueue(grid, plan, params, stream));
  if (current != nullptr) {
    CUdevice device = -1;
    if (const CUresult result = api_.ctx_get_device(&device); result != CUDA_SUCCESS) return static_cast<int>(result);
    if (device != native_device_) return kContextOfAnotherDevice;
    return static_cast<int>(enqueue(grid, plan, params, stream));
  }
  if (const CUresult result = api_.ctx_push_current(primary_); result != CUDA_SUCCESS) return static_cast<int>(result);
  const CUresult result = enqueue(grid, plan, params, stream);
  CUcontext popped = nullptr;
  api_.ctx_pop_current(&popped);
  return static_cast<int>(result);
}

Error CudaLoadedKernel::explain(int status, const std::string& what, void* stream) {
  const std::string mine = fmt::format("{} ({})", to_string(device_->info().id), device_->info().name);
  if (status == kStreamOfAnotherDevice || status == kContextOfAnotherDevice) {
    // Asked again on this cold path; launch() hands back one int.
    CUdevice other = -1;
    const CUresult result =
        status == kStreamOfAnotherDevice ? stream_device(static_cast<CUstream>(stream), other) : api_.ctx_get_device(&other);
    const std::string theirs = result == CUDA_SUCCESS ? to_string(DeviceId::cuda(other)) : std::string("another device");
    if (status == kStreamOfAnotherDevice) {
      return Error{
          ErrorCode::invalid_argument,
          fmt::format("{}: the stream belongs to {}, the kernel was prepared for {}. Pass a stream of the kernel's device, or prepare "
                      "the kernel for the stream's",
                      what, theirs, mine),
          {}};
    }
    return Error{
        ErrorCode::invalid_argument,
        fmt::format("{}: the default stream is that of the current context, which belongs to {}; the kernel was prepared for {}. Make "
                    "the kernel's device current, or pass one of its streams",
                    what, theirs, mine),
        {}};
  }
  return device_->driver().error(static_cast<CUresult>(status), fmt::format("launching {} on {}", what, mine), ErrorCode::launch_failed);
}

}  // namespace kernwright
