// Device memory and streams for C.
#include <span>

#include "c_api/handles.hpp"

using namespace kernwright;
using namespace kernwright::c_api;

extern "C" {

kw_status kw_buffer_create(const kw_runtime* runtime, kw_device device, uint64_t bytes, kw_buffer** buffer) {
  return guarded([&]() -> Result<> {
    if (auto r = clear(buffer, "buffer"); !r) return r;
    if (auto r = need(runtime, "runtime"); !r) return r;
    const auto id = read_device(device);
    if (!id) return tl::unexpected<Error>(id.error());
    return hand_out(buffer, runtime->runtime.allocate(*id, Bytes{bytes}));
  });
}

void kw_buffer_destroy(kw_buffer* buffer) {
  delete buffer;
}

kw_status kw_buffer_data(const kw_buffer* buffer, void** data) {
  return guarded([&]() -> Result<> {
    if (auto r = need(buffer, "buffer"); !r) return r;
    if (auto r = need(data, "data"); !r) return r;
    *data = buffer->buffer.data();
    return {};
  });
}

kw_status kw_buffer_upload(kw_buffer* buffer, const void* bytes, uint64_t count) {
  return guarded([&]() -> Result<> {
    if (auto r = need(buffer, "buffer"); !r) return r;
    if (count == 0) return {};
    if (auto r = need(bytes, "bytes"); !r) return r;
    return buffer->buffer.upload(std::span(static_cast<const std::byte*>(bytes), count));
  });
}

kw_status kw_buffer_download(const kw_buffer* buffer, void* bytes, uint64_t count) {
  return guarded([&]() -> Result<> {
    if (auto r = need(buffer, "buffer"); !r) return r;
    if (count == 0) return {};
    if (auto r = need(bytes, "bytes"); !r) return r;
    return buffer->buffer.download(std::span(static_cast<std::byte*>(bytes), count));
  });
}

kw_status kw_stream_create(const kw_runtime* runtime, kw_device device, kw_stream** stream) {
  return guarded([&]() -> Result<> {
    if (auto r = clear(stream, "stream"); !r) return r;
    if (auto r = need(runtime, "runtime"); !r) return r;
    const auto id = read_device(device);
    if (!id) return tl::unexpected<Error>(id.error());
    return hand_out(stream, runtime->runtime.create_stream(*id));
  });
}

void kw_stream_destroy(kw_stream* stream) {
  delete stream;
}

kw_status kw_stream_get_handle(const kw_stream* stream, kw_stream_handle* handle) {
  return guarded([&]() -> Result<> {
    if (auto r = need(stream, "stream"); !r) return r;
    if (auto r = need(handle, "handle"); !r) return r;
    *handle = stream->stream.handle().native;
    return {};
  });
}

kw_status kw_stream_synchronize(const kw_stream* stream) {
  return guarded([&]() -> Result<> {
    if (auto r = need(stream, "stream"); !r) return r;
    return stream->stream.synchronize();
  });
}

}  // extern "C"
