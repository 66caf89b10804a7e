// Heap memory of a given alignment and an exact size, so that AddressSanitizer sees the first byte past it.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>

namespace kernwright::host {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  /// Throws std::bad_alloc.
  AlignedBuffer(std::size_t alignment, std::size_t bytes) : bytes_(bytes) {
    if (posix_memalign(&data_, alignment, bytes) != 0) throw std::bad_alloc();
  }
  AlignedBuffer(AlignedBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~AlignedBuffer() { std::free(data_); }

  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace kernwright::host
