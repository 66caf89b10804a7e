// A backend whose compiles a test sees, holds up and answers. The real host compiler makes the bytes, once for each kind of request.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.hpp"

namespace kernwright::tests {

/// Thread-safe but for `before`, which is set before compiles begin.
class WatchedCompiler final : public Compiler {
 public:
  explicit WatchedCompiler(std::shared_ptr<Backend> host) : host_(std::move(host)) {}

  /// Called with every request that is to be compiled; an error that it answers is the compile's.
  std::function<Result<>(const BuildRequest&)> before;

  [[nodiscard]] std::string_view family() const noexcept override { return host_->compiler().family(); }
  Result<CompilerIdentity> identity() override { return host_->compiler().identity(); }
  Result<CompileOutput> compile(const BuildRequest& request) override {
    {
      const std::lock_guard lock(mutex_);
      seen_.push_back(name_of(request));
    }
    if (before) {
      if (auto allowed = before(request); !allowed) return fail(std::move(allowed.error()));
    }
    return bytes_of(request);
  }
  Result<ResourceUse> resources(const BuildRequest&, std::span<const std::byte>, std::string_view) override { return ResourceUse{}; }

  /// "plans factor=3 sm_90a" or "mma:m1n1s1w1 factor=3 host", in the order they came.
  [[nodiscard]] std::vector<std::string> seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  static std::string name_of(const BuildRequest& request) {
    const std::string what = request.kind == ArtifactKind::plans ? "plans" : request.tiles.front().text();
    return what + " " + request.specialisation.text() + " " + request.target.name();
  }

 private:
  /// What a test's templates compile to does not depend on the specialisation, and a kernel's bytes are looked at by nobody here.
  Result<CompileOutput> bytes_of(const BuildRequest& request) {
    std::string words = request.template_name;
    if (request.kind == ArtifactKind::plans) {
      for (const Tile& tile : request.tiles) words += tile.text();
    }
    const std::lock_guard lock(bytes_mutex());
    auto& known = bytes()[words];
    if (known.binary.empty()) {
      BuildRequest for_host = request;
      for_host.target = Target::host();
      auto output = host_->compiler().compile(for_host);
      if (!output) return output;
      known = std::move(*output);
    }
    return known;
  }
  static std::map<std::string, CompileOutput>& bytes() {
    static std::map<std::string, CompileOutput> all;
    return all;
  }

  std::shared_ptr<Backend> host_;
  mutable std::mutex mutex_;
  std::vector<std::string> seen_;
  static std::mutex& bytes_mutex() {
    static std::mutex mutex;
    return mutex;
  }
};

/// Passes everything but the compiler on to the host backend.
class WatchedBackend final : public Backend {
 public:
  explicit WatchedBackend(std::shared_ptr<Backend> host) : host_(std::move(host)), compiler_(host_) {}
  WatchedCompiler& watched() { return compiler_; }

  /// What devices() answers with; empty: the host's own.
  std::vector<DeviceInfo> pretended;

  Result<std::vector<DeviceInfo>> devices() override {
    if (!pretended.empty()) return pretended;
    return host_->devices();
  }
  Compiler& compiler() override { return compiler_; }
  Result<std::unique_ptr<LoadedKernel>> load(const DeviceInfo& device, const Artifact& artifact) override {
    return host_->load(device, artifact);
  }
  Result<void*> allocate(DeviceId device, Bytes size) override { return host_->allocate(device, size); }
  void free(DeviceId device, void* data) noexcept override { host_->free(device, data); }
  Result<> copy_to_device(DeviceId device, void* to, std::span<const std::byte> from) override {
    return host_->copy_to_device(device, to, from);
  }
  Result<> copy_from_device(DeviceId device, std::span<std::byte> to, const void* from) override {
    return host_->copy_from_device(device, to, from);
  }
  Result<> copy_on_device(DeviceId device, void* to, const void* from, Bytes size, StreamHandle stream) override {
    return host_->copy_on_device(device, to, from, size, stream);
  }
  Result<> fill(DeviceId device, void* data, std::byte value, Bytes size) override { return host_->fill(device, data, value, size); }
  Result<> enqueue_zeros(DeviceId device, void* data, Bytes size, StreamHandle stream) override {
    return host_->enqueue_zeros(device, data, size, stream);
  }
  Result<void*> allocate_pinned(DeviceId device, Bytes size) override { return host_->allocate_pinned(device, size); }
  void free_pinned(DeviceId device, void* data) noexcept override { host_->free_pinned(device, data); }
  Result<> enqueue_copy_from_device(DeviceId device, const RowCopy& copy, StreamHandle stream) override {
    return host_->enqueue_copy_from_device(device, copy, stream);
  }
  Result<StreamHandle> create_stream(DeviceId device) override { return host_->create_stream(device); }
  void destroy_stream(DeviceId device, StreamHandle stream) noexcept override { host_->destroy_stream(device, stream); }
  Result<> synchronize(DeviceId device, StreamHandle stream) override { return host_->synchronize(device, stream); }
  bool is_capturing(StreamHandle stream) noexcept override { return host_->is_capturing(stream); }
  Result<void*> create_event(DeviceId device) override { return host_->create_event(device); }
  void destroy_event(DeviceId device, void* event) noexcept override { host_->destroy_event(device, event); }
  Result<> enqueue_wait(DeviceId device, StreamHandle stream, void* event) override { return host_->enqueue_wait(device, stream, event); }
  Result<> record_event(DeviceId device, void* event, StreamHandle stream) override { return host_->record_event(device, event, stream); }
  Result<> wait_for_event(DeviceId device, void* event) override { return host_->wait_for_event(device, event); }
  Result<double> elapsed_milliseconds(DeviceId device, void* start, void* stop) override {
    return host_->elapsed_milliseconds(device, start, stop);
  }

 private:
  std::shared_ptr<Backend> host_;
  WatchedCompiler compiler_;
};

}  // namespace kernwright::tests
