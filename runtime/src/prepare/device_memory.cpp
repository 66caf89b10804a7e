#include "kernwright/device_memory.hpp"

#include <fmt/format.h>

#include <utility>

#include "backend/backend.hpp"

namespace kernwright {

DeviceBuffer::DeviceBuffer(std::shared_ptr<Backend> backend, DeviceId device, void* data, Bytes size) noexcept
    : backend_(std::move(backend)), device_(device), data_(data), size_(size) {}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : backend_(std::move(other.backend_)),
      device_(other.device_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, {})) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(backend_, other.backend_);
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) backend_->free(device_, data_);
}

namespace {
Result<> check_extent(std::size_t asked, Bytes size) {
  if (asked <= size.count) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("a copy of {} bytes does not fit a device buffer of {}", asked, size.count));
}
}  // namespace

Result<> DeviceBuffer::upload(std::span<const std::byte> bytes) {
  if (auto checked = check_extent(bytes.size(), size_); !checked || bytes.empty()) return checked;
  return backend_->copy_to_device(device_, data_, bytes);
}

Result<> DeviceBuffer::download(std::span<std::byte> bytes) const {
  if (auto checked = check_extent(bytes.size(), size_); !checked || bytes.empty()) return checked;
  return backend_->copy_from_device(device_, bytes, data_);
}

Result<> DeviceBuffer::fill(std::byte value) {
  if (size_.count == 0) return {};
  return backend_->fill(device_, data_, value, size_);
}

Stream::Stream(std::shared_ptr<Backend> backend, DeviceId device, StreamHandle handle) noexcept
    : backend_(std::move(backend)), device_(device), handle_(handle) {}

Stream::Stream(Stream&& other) noexcept
    : backend_(std::move(other.backend_)), device_(other.device_), handle_(std::exchange(other.handle_, {})) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(backend_, other.backend_);
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  return *this;
}

Stream::~Stream() {
  if (backend_ && handle_.native != nullptr) backend_->destroy_stream(device_, handle_);
}

Result<> Stream::synchronize() const {
  if (!backend_) return {};
  return backend_->synchronize(device_, handle_);
}

Event::Event(std::shared_ptr<Backend> backend, DeviceId device, void* native) noexcept
    : backend_(std::move(backend)), device_(device), native_(native) {}

Event::Event(Event&& other) noexcept
    : backend_(std::move(other.backend_)), device_(other.device_), native_(std::exchange(other.native_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(backend_, other.backend_);
  std::swap(device_, other.device_);
  std::swap(native_, other.native_);
  return *this;
}

Event::~Event() {
  if (backend_ && native_ != nullptr) backend_->destroy_event(device_, native_);
}

namespace {
tl::unexpected<Error> empty_event() {
  return fail(ErrorCode::invalid_argument, "the event was never created; see Runtime::create_event");
}
}  // namespace

Result<> Event::record(StreamHandle stream) {
  if (!backend_) return empty_event();
  return backend_->record_event(device_, native_, stream);
}

Result<> Event::enqueue_wait(StreamHandle stream) const {
  if (!backend_) return empty_event();
  return backend_->enqueue_wait(device_, stream, native_);
}

Result<double> Event::milliseconds_since(const Event& start) const {
  if (!backend_ || !start.backend_) return empty_event();
  if (device_ != start.device_ || backend_ != start.backend_) {
    return fail(ErrorCode::invalid_argument, fmt::format("the two events belong to different devices or runtimes: {} and {}",
                                                         to_string(start.device_), to_string(device_)));
  }
  return backend_->elapsed_milliseconds(device_, start.native_, native_);
}

}  // namespace kernwright
