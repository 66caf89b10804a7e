#include "kernwright/runtime.hpp"

#include "prepare/boundary.hpp"
#include "prepare/dispatcher.hpp"
#include "prepare/in_background.hpp"
#include "prepare/options.hpp"
#include "prepare/runtime_state.hpp"
#include "remote/remote_tier.hpp"

namespace kernwright {

Result<Runtime> Runtime::create(RuntimeOptions options) {
  return without_exceptions([&]() -> Result<Runtime> {
    auto resolved = resolve_options(std::move(options));
    if (!resolved) return fail(std::move(resolved.error()).within("reading the runtime's options"));
    RuntimeParts parts;
    if (resolved->remote.url) {
      const RemoteCacheOptions& remote = resolved->remote;
      RemoteOptions settings{.url = *remote.url,
                             .key_file = remote.key_file.value_or(""),
                             .largest_entry = remote.largest_entry,
                             .time_to_live_seconds = remote.time_to_live_seconds};
      if (remote.name_space) settings.name_space = *remote.name_space;
      auto tier = open_remote_tier(settings, Logger(resolved->log, resolved->log_level.value_or(LogLevel::warn)), parts.clock);
      if (!tier) return fail(std::move(tier.error()).within("opening the remote cache"));
      parts.remote = std::move(*tier);
    }
    return Runtime(State::create(std::move(*resolved), std::move(parts)));
  });
}

Result<std::vector<DeviceInfo>> Runtime::cuda_devices() const {
  return without_exceptions([&] { return state_->cuda->devices(); });
}

Result<DeviceInfo> Runtime::device(DeviceId id) const {
  return without_exceptions([&] { return state_->device(id); });
}

Result<> Runtime::register_template(const TemplateSource& source) const {
  return without_exceptions([&]() -> Result<> {
    auto templates = state_->templates();
    if (!templates) return fail(std::move(templates.error()));
    return (*templates)->add(source);
  });
}

std::vector<std::string> Runtime::template_names() const {
  auto templates = state_->templates();
  return templates ? (*templates)->names() : std::vector<std::string>{};
}

Result<Kernel> Runtime::prepare(const PrepareRequest& request) const {
  return without_exceptions([&]() -> Result<Kernel> {
    if (auto forked = state_->fork_guard.check(); !forked) return fail(std::move(forked.error()));
    if (auto known = state_->prepared.find(request)) return std::move(*known);
    auto kernel = prepare_kernel(*state_, request);
    if (!kernel) return kernel;
    return state_->prepared.add(request, *kernel);
  });
}

std::shared_future<Result<Kernel>> Runtime::prepare_async(PrepareRequest request) const {
  if (auto forked = state_->fork_guard.check(); !forked) return answered<Kernel>(fail(std::move(forked.error())));
  if (auto known = state_->prepared.find(request)) return answered<Kernel>(std::move(*known));
  return in_background<Kernel>(*state_, [asked = std::move(request)](const Runtime& runtime) { return runtime.prepare(asked); });
}

Result<std::vector<WarmedItem>> Runtime::warm(const WarmRequest& request) const {
  return without_exceptions([&]() -> Result<std::vector<WarmedItem>> {
    if (auto forked = state_->fork_guard.check(); !forked) return fail(std::move(forked.error()));
    return warm_template(*state_, request);
  });
}

void Runtime::flush_remote(double limit_seconds) const {
  state_->stores->flush_remote(limit_seconds);
}

Counters Runtime::counters() const {
  return state_->counters->read();
}

std::filesystem::path Runtime::store_folder() const {
  const auto& store = state_->stores->writable();
  return store ? store->folder() : std::filesystem::path{};
}

std::vector<std::filesystem::path> Runtime::store_folders() const {
  return state_->stores->folders();
}

bool Runtime::sealed() const noexcept {
  return state_->options.sealed.value_or(false);
}

Result<DeviceBuffer> Runtime::allocate(DeviceId device, Bytes size) const {
  return without_exceptions([&]() -> Result<DeviceBuffer> {
    const auto& backend = state_->backend(device.backend);
    auto data = backend->allocate(device, size);
    if (!data) return fail(std::move(data.error()));
    return DeviceBuffer(backend, device, *data, size);
  });
}

Result<Stream> Runtime::create_stream(DeviceId device) const {
  return without_exceptions([&]() -> Result<Stream> {
    const auto& backend = state_->backend(device.backend);
    auto stream = backend->create_stream(device);
    if (!stream) return fail(std::move(stream.error()));
    return Stream(backend, device, *stream);
  });
}

Result<Event> Runtime::create_event(DeviceId device) const {
  return without_exceptions([&]() -> Result<Event> {
    const auto& backend = state_->backend(device.backend);
    auto event = backend->create_event(device);
    if (!event) return fail(std::move(event.error()));
    return Event(backend, device, *event);
  });
}

}  // namespace kernwright
