// A file's bytes mapped for reading.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

#include "kernwright/result.hpp"

namespace kernwright {

/// Owns a private read-only mapping of a regular file: only the pages that are looked at are read. Not for a file that its owner may
/// truncate while it is read (the installed libraries it is used on are replaced, never cut).
class MappedFile {
 public:
  static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  MappedFile(void* data, std::size_t size) noexcept : data_(data), size_(size) {}
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace kernwright
