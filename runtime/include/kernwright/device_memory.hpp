// Device memory, streams and events for programs that have no engine around them: tools, tests, examples.
// Threads: one object belongs to one thread at a time; different objects are independent.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "kernwright/device.hpp"
#include "kernwright/result.hpp"
#include "kernwright/units.hpp"

namespace kernwright {

class Backend;

/// Owns one allocation on a device (ordinary heap memory on host). Movable. Freed on destruction.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(std::shared_ptr<Backend> backend, DeviceId device, void* data, Bytes size) noexcept;
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] Bytes size() const noexcept { return size_; }
  /// Synchronous copies, which wait for no other stream (create_stream makes non-blocking ones): synchronise the stream that wrote the
  /// buffer, or reads it still, first. `bytes` past the buffer's size is invalid_argument.
  [[nodiscard]] Result<> upload(std::span<const std::byte> bytes);
  [[nodiscard]] Result<> download(std::span<std::byte> bytes) const;
  /// Sets every byte; synchronous, and waits for no other stream either.
  [[nodiscard]] Result<> fill(std::byte value);

 private:
  std::shared_ptr<Backend> backend_;
  DeviceId device_;
  void* data_ = nullptr;
  Bytes size_;
};

/// Owns a stream. On host a null stream: launches are synchronous.
class Stream {
 public:
  Stream() = default;
  Stream(std::shared_ptr<Backend> backend, DeviceId device, StreamHandle handle) noexcept;
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();
  [[nodiscard]] StreamHandle handle() const noexcept { return handle_; }
  [[nodiscard]] Result<> synchronize() const;

 private:
  std::shared_ptr<Backend> backend_;
  DeviceId device_;
  StreamHandle handle_;
};

/// Owns a timing event (a clock reading on host).
class Event {
 public:
  Event() = default;
  Event(std::shared_ptr<Backend> backend, DeviceId device, void* native) noexcept;
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();
  [[nodiscard]] Result<> record(StreamHandle stream);
  /// What `stream` is given from now on runs behind the event's last record.
  [[nodiscard]] Result<> enqueue_wait(StreamHandle stream) const;
  /// Milliseconds from `start` to this event; waits for both.
  [[nodiscard]] Result<double> milliseconds_since(const Event& start) const;

 private:
  std::shared_ptr<Backend> backend_;
  DeviceId device_;
  void* native_ = nullptr;
};

}  // namespace kernwright
