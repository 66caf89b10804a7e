// Device memory with something in it.
#pragma once

#include <span>
#include <vector>

#include "kernwright/runtime.hpp"

namespace kernwright::tool {

/// A buffer that holds `values`.
template <class T>
Result<DeviceBuffer> to_device(const Runtime& runtime, DeviceId device, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  Result<DeviceBuffer> buffer = runtime.allocate(device, Bytes{bytes.size()});
  if (!buffer) return buffer;
  if (Result<> uploaded = buffer->upload(bytes); !uploaded) return fail(std::move(uploaded.error()));
  return buffer;
}

/// An output full of NaNs (−1 where it holds integers): what no launch writes does not pass for a zero.
inline Result<DeviceBuffer> output_buffer(const Runtime& runtime, DeviceId device, Bytes size) {
  Result<DeviceBuffer> buffer = runtime.allocate(device, size);
  if (!buffer) return buffer;
  if (Result<> filled = buffer->fill(std::byte{0xff}); !filled) return fail(std::move(filled.error()));
  return buffer;
}

/// The first `count` elements of a buffer.
template <class T>
Result<std::vector<T>> to_host(const DeviceBuffer& buffer, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  if (Result<> fetched = buffer.download(std::as_writable_bytes(std::span(values))); !fetched) return fail(std::move(fetched.error()));
  return values;
}

}  // namespace kernwright::tool
