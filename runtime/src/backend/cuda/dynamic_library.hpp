// A shared library opened at run time.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "kernwright/result.hpp"

namespace kernwright {

/// Owns a dlopen handle. The driver and NVRTC are opened with `resident`: their threads and exit handlers must not lose their code.
class DynamicLibrary {
 public:
  enum class Lifetime { counted, resident };

  DynamicLibrary() = default;
  /// A name without '/' is looked for by the loader. not_found carries the loader's own words.
  static Result<DynamicLibrary> open(const std::string& name, Lifetime lifetime);
  /// The library that a loader's look-up of `name` answers now without loading anything; empty handle where it is not loaded.
  static DynamicLibrary already_loaded(const std::string& name);

  DynamicLibrary(DynamicLibrary&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  DynamicLibrary& operator=(DynamicLibrary&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~DynamicLibrary();

  [[nodiscard]] explicit operator bool() const noexcept { return handle_ != nullptr; }
  /// Null where the library has no such symbol.
  [[nodiscard]] void* find(const char* symbol) const noexcept;
  /// Where the loader mapped it from; empty where the loader does not say.
  [[nodiscard]] std::filesystem::path path() const;

 private:
  explicit DynamicLibrary(void* handle) noexcept : handle_(handle) {}
  void* handle_ = nullptr;
};

}  // namespace kernwright
