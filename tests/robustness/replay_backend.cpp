#include "robustness/replay_backend.hpp"

#include <stdexcept>
#include <utility>

#include "backend/backends.hpp"
#include "key/key.hpp"
#include "prepare/options.hpp"

namespace kernwright::robustness {
namespace {

class ReplayCompiler final : public Compiler {
 public:
  explicit ReplayCompiler(Compiler& real) : real_(real) {}
  [[nodiscard]] std::string_view family() const noexcept override { return real_.family(); }
  Result<CompilerIdentity> identity() override { return real_.identity(); }
  Result<CompileOutput> compile(const BuildRequest& request) override {
    auto identity = real_.identity();
    if (!identity) return fail(std::move(identity.error()));
    const EntryKey key = entry_key(request, *identity);
    const std::lock_guard lock(mutex_);
    if (const auto known = outputs_.find(key); known != outputs_.end()) return known->second;
    auto output = real_.compile(request);
    if (output) outputs_.emplace(key, *output);
    return output;
  }
  Result<ResourceUse> resources(const BuildRequest& request, std::span<const std::byte> binary, std::string_view log) override {
    return real_.resources(request, binary, log);
  }

 private:
  Compiler& real_;
  std::mutex mutex_;
  std::map<EntryKey, CompileOutput> outputs_;
};

class ReplayBackend final : public Backend {
 public:
  explicit ReplayBackend(std::shared_ptr<Backend> real) : real_(std::move(real)), compiler_(real_->compiler()) {}
  Result<std::vector<DeviceInfo>> devices() override { return real_->devices(); }
  Compiler& compiler() override { return compiler_; }
  Result<std::unique_ptr<LoadedKernel>> load(const DeviceInfo& device, const Artifact& artifact) override {
    return real_->load(device, artifact);
  }
  Result<void*> allocate(DeviceId device, Bytes size) override { return real_->allocate(device, size); }
  void free(DeviceId device, void* data) noexcept override { real_->free(device, data); }
  Result<> copy_to_device(DeviceId device, void* to, std::span<const std::byte> from) override {
    return real_->copy_to_device(device, to, from);
  }
  Result<> copy_from_device(DeviceId device, std::span<std::byte> to, const void* from) override {
    return real_->copy_from_device(device, to, from);
  }
  Result<> copy_on_device(DeviceId device, void* to, const void* from, Bytes size, StreamHandle stream) override {
    return real_->copy_on_device(device, to, from, size, stream);
  }
  Result<> fill(DeviceId device, void* data, std::byte value, Bytes size) override { return real_->fill(device, data, value, size); }
  Result<> enqueue_zeros(DeviceId device, void* data, Bytes size, StreamHandle stream) override {
    return real_->enqueue_zeros(device, data, size, stream);
  }
  Result<void*> allocate_pinned(DeviceId device, Bytes size) override { return real_->allocate_pinned(device, size); }
  void free_pinned(DeviceId device, void* data) noexcept override { real_->free_pinned(device, data); }
  Result<> enqueue_copy_from_device(DeviceId device, const RowCopy& copy, StreamHandle stream) override {
    return real_->enqueue_copy_from_device(device, copy, stream);
  }
  Result<StreamHandle> create_stream(DeviceId device) override { return real_->create_stream(device); }
  void destroy_stream(DeviceId device, StreamHandle stream) noexcept override { real_->destroy_stream(device, stream); }
  Result<> synchronize(DeviceId device, StreamHandle stream) override { return real_->synchronize(device, stream); }
  bool is_capturing(StreamHandle stream) noexcept override { return real_->is_capturing(stream); }
  Result<void*> create_event(DeviceId device) override { return real_->create_event(device); }
  void destroy_event(DeviceId device, void* event) noexcept override { real_->destroy_event(device, event); }
  Result<> record_event(DeviceId device, void* event, StreamHandle stream) override { return real_->record_event(device, event, stream); }
  Result<> enqueue_wait(DeviceId device, StreamHandle stream, void* event) override { return real_->enqueue_wait(device, stream, event); }
  Result<> wait_for_event(DeviceId device, void* event) override { return real_->wait_for_event(device, event); }
  Result<double> elapsed_milliseconds(DeviceId device, void* start, void* stop) override {
    return real_->elapsed_milliseconds(device, start, stop);
  }

 private:
  std::shared_ptr<Backend> real_;
  ReplayCompiler compiler_;
};

}  // namespace

std::shared_ptr<Backend> make_replay_backend() {
  RuntimeOptions wanted;
  wanted.host.workers = 1;  // what is launched is tiny
  auto options = resolve_options(std::move(wanted));
  if (!options) throw std::runtime_error(options.error().text());
  return std::make_shared<ReplayBackend>(make_host_backend(*options, Logger()));
}

}  // namespace kernwright::robustness
