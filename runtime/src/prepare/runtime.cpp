#include "kernwright/runtime.hpp"

#include <fmt/format.h>

#include "prepare/boundary.hpp"
#include "prepare/dispatcher.hpp"
#include "prepare/options.hpp"
#include "prepare/runtime_state.hpp"

namespace kernwright {
namespace {

/// Names a prepared kernel: two requests with the same name get the same kernel.
std::string registry_name(const PrepareRequest& request) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.template_name, request.specialisation.text(), to_string(request.device),
                     request.tile ? request.tile->text() : "", request.params_bytes, request.after ? request.after->text() : "");
}

}  // namespace

Result<Runtime> Runtime::create(RuntimeOptions options) {
  return without_exceptions([&]() -> Result<Runtime> {
    auto resolved = resolve_options(std::move(options));
    if (!resolved) return fail(std::move(resolved.error()).within("reading the runtime's options"));
    return Runtime(State::create(std::move(*resolved)));
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
    const std::string name = registry_name(request);
    {
      const std::lock_guard lock(state_->prepared_mutex);
      if (const auto found = state_->prepared.find(name); found != state_->prepared.end()) return found->second;
    }
    auto kernel = prepare_kernel(*state_, request);
    if (!kernel) return kernel;
    const std::lock_guard lock(state_->prepared_mutex);
    return state_->prepared.emplace(name, *kernel).first->second;
  });
}

Result<std::vector<WarmedItem>> Runtime::warm(const WarmRequest& request) const {
  return without_exceptions([&] { return warm_template(*state_, request); });
}

Counters Runtime::counters() const {
  return state_->counters->read();
}

std::filesystem::path Runtime::store_folder() const {
  return state_->store ? state_->store->folder() : std::filesystem::path{};
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
