#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <thread>

#include "backend/backends.hpp"
#include "backend/host/host_compiler.hpp"
#include "backend/host/host_defaults.hpp"
#include "backend/host/host_kernel.hpp"
#include "backend/host/interpreter.hpp"
#include "backend/host/object_file.hpp"

namespace kernwright {
namespace {

using namespace host;

constexpr std::size_t kMemoryAlignment = 256;  // as cuMemAlloc gives

std::uint64_t system_value(int name) {
  const long value = sysconf(name);
  return value > 0 ? static_cast<std::uint64_t>(value) : 0;
}

struct HostEvent {
  std::optional<std::chrono::steady_clock::time_point> at;
};

class HostBackend final : public Backend {
 public:
  HostBackend(const RuntimeOptions& options, Logger logger)
      : compiler_(options.host, std::move(logger)),
        interpreter_(std::make_shared<Interpreter>(
            options.host.mode.value_or(kDefaultMode),
            options.host.workers > 0 ? static_cast<unsigned>(options.host.workers) : std::max(1U, std::thread::hardware_concurrency()),
            options.host.seed.value_or(kDefaultSeed))) {
    info_.id = DeviceId::host();
    info_.name = "host";
    info_.shared_memory_per_block = options.host.shared_memory.value_or(kDefaultSharedMemory);
    if (options.shared_memory_limit) info_.shared_memory_per_block = std::min(info_.shared_memory_per_block, *options.shared_memory_limit);
    info_.max_threads_per_block = kMaxThreads;
    info_.multiprocessors = static_cast<int>(interpreter_->workers());
    info_.l2 = {system_value(_SC_LEVEL2_CACHE_SIZE)};
    info_.memory = {system_value(_SC_PHYS_PAGES) * system_value(_SC_PAGESIZE)};
  }

  Result<std::vector<DeviceInfo>> devices() override { return std::vector{info_}; }
  Compiler& compiler() override { return compiler_; }

  Result<std::unique_ptr<LoadedKernel>> load(const DeviceInfo& device, const Artifact& artifact) override {
    auto object = ObjectFile::load(artifact.binary);
    if (!object) return fail(std::move(object.error()).within(fmt::format("loading {}", artifact.request.template_name)));
    const auto entry_bytes = static_cast<std::int64_t>(object->interface().params_bytes);
    if (artifact.plans.size() == 1 && artifact.plans.front().params_bytes != entry_bytes) {
      return fail(ErrorCode::load_failed,
                  fmt::format("{}: the plan says that the parameter struct has {} bytes, the entry {} takes {}",
                              artifact.request.template_name, artifact.plans.front().params_bytes, artifact.request.entry, entry_bytes));
    }
    return std::make_unique<HostKernel>(std::move(*object), device, interpreter_);
  }

  Result<void*> allocate(DeviceId, Bytes size) override {
    void* data = nullptr;
    if (posix_memalign(&data, kMemoryAlignment, std::max<std::size_t>(1, size.count)) != 0) {
      return fail(ErrorCode::out_of_memory, fmt::format("the host could not give {} bytes", size.count));
    }
    return data;
  }
  void free(DeviceId, void* data) noexcept override { std::free(data); }
  Result<> copy_to_device(DeviceId, void* to, std::span<const std::byte> from) override {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
    return {};
  }
  Result<> copy_from_device(DeviceId, std::span<std::byte> to, const void* from) override {
    if (!to.empty()) std::memcpy(to.data(), from, to.size());
    return {};
  }
  Result<> copy_on_device(DeviceId, void* to, const void* from, Bytes size, StreamHandle) override {
    if (size.count != 0) std::memcpy(to, from, size.count);
    return {};
  }
  Result<> fill(DeviceId, void* data, std::byte value, Bytes size) override {
    if (size.count != 0) std::memset(data, std::to_integer<int>(value), size.count);
    return {};
  }
  Result<> enqueue_zeros(DeviceId device, void* data, Bytes size, StreamHandle) override { return fill(device, data, std::byte{0}, size); }

  Result<void*> allocate_pinned(DeviceId device, Bytes size) override { return allocate(device, size); }
  void free_pinned(DeviceId device, void* data) noexcept override { free(device, data); }
  Result<> enqueue_copy_from_device(DeviceId, const RowCopy& copy, StreamHandle) override {
    for (std::size_t row = 0; row < copy.rows; ++row) {
      std::memcpy(static_cast<std::byte*>(copy.to) + row * copy.to_pitch, static_cast<const std::byte*>(copy.from) + row * copy.from_pitch,
                  copy.row_bytes);
    }
    return {};
  }

  Result<StreamHandle> create_stream(DeviceId) override { return StreamHandle{}; }
  void destroy_stream(DeviceId, StreamHandle) noexcept override {}
  Result<> synchronize(DeviceId, StreamHandle) override { return {}; }

  bool is_capturing(StreamHandle) noexcept override { return false; }

  Result<void*> create_event(DeviceId) override { return new HostEvent; }
  void destroy_event(DeviceId, void* event) noexcept override { delete static_cast<HostEvent*>(event); }
  Result<> record_event(DeviceId, void* event, StreamHandle) override {
    static_cast<HostEvent*>(event)->at = std::chrono::steady_clock::now();
    return {};
  }
  Result<> enqueue_wait(DeviceId, StreamHandle, void*) override { return {}; }  // launches have finished already
  Result<> wait_for_event(DeviceId, void*) override { return {}; }
  Result<double> elapsed_milliseconds(DeviceId, void* start, void* stop) override {
    const auto& from = static_cast<HostEvent*>(start)->at;
    const auto& to = static_cast<HostEvent*>(stop)->at;
    if (!from || !to) return fail(ErrorCode::invalid_argument, "an event that was never recorded has no time");
    return std::chrono::duration<double, std::milli>(*to - *from).count();
  }

 private:
  DeviceInfo info_;
  HostCompiler compiler_;
  std::shared_ptr<Interpreter> interpreter_;
};

}  // namespace

std::shared_ptr<Backend> make_host_backend(const RuntimeOptions& options, Logger logger) {
  return std::make_shared<HostBackend>(options, std::move(logger));
}

}  // namespace kernwright
