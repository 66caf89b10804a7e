// NVRTC, opened at run time.
#pragma once

#include <nvrtc.h>

#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/dynamic_library.hpp"
#include "backend/cuda/nvrtc_search.hpp"
#include "kernwright/result.hpp"

namespace kernwright {

/// NVRTC's entry points, typed by nvrtc.h. The one below the line may be null.
struct NvrtcApi {
  decltype(&::nvrtcVersion) version = nullptr;
  decltype(&::nvrtcGetErrorString) get_error_string = nullptr;
  decltype(&::nvrtcGetNumSupportedArchs) get_num_supported_archs = nullptr;
  decltype(&::nvrtcGetSupportedArchs) get_supported_archs = nullptr;
  decltype(&::nvrtcCreateProgram) create_program = nullptr;
  decltype(&::nvrtcDestroyProgram) destroy_program = nullptr;
  decltype(&::nvrtcCompileProgram) compile_program = nullptr;
  decltype(&::nvrtcGetCUBINSize) get_cubin_size = nullptr;
  decltype(&::nvrtcGetCUBIN) get_cubin = nullptr;
  decltype(&::nvrtcGetPTXSize) get_ptx_size = nullptr;
  decltype(&::nvrtcGetPTX) get_ptx = nullptr;
  decltype(&::nvrtcGetProgramLogSize) get_program_log_size = nullptr;
  decltype(&::nvrtcGetProgramLog) get_program_log = nullptr;
  // ------------------------------------------------------------------------------------------------------------------------------------
  decltype(&::nvrtcSetFlowCallback) set_flow_callback = nullptr;  ///< CUDA 12.8
};

/// An open NVRTC and its builtins library. Thread-safe.
class Nvrtc {
 public:
  static Result<std::shared_ptr<const Nvrtc>> open(const NvrtcFile& file);

  [[nodiscard]] const NvrtcApi& api() const noexcept { return api_; }
  [[nodiscard]] int major() const noexcept { return major_; }
  [[nodiscard]] int minor() const noexcept { return minor_; }
  [[nodiscard]] std::string version_text() const { return std::to_string(major_) + "." + std::to_string(minor_); }
  /// Capabilities that it compiles for, 10·major + minor.
  [[nodiscard]] const std::vector<int>& architectures() const noexcept { return architectures_; }
  [[nodiscard]] bool at_least(int major, int minor) const noexcept { return major_ > major || (major_ == major && minor_ >= minor); }

  /// Loads `builtins` (empty: none), so that NVRTC's own look-up by name answers this file and not one that the loader prefers.
  /// compiler_unavailable where another build of that name is loaded in the process already: NVRTC would use it instead.
  Result<DynamicLibrary> pin_builtins(const std::filesystem::path& builtins) const;

 private:
  DynamicLibrary library_;
  NvrtcApi api_;
  int major_ = 0;
  int minor_ = 0;
  std::vector<int> architectures_;
};

/// Owns an nvrtcProgram.
class NvrtcProgram {
 public:
  NvrtcProgram(const NvrtcApi& api, nvrtcProgram program) noexcept : api_(api), program_(program) {}
  NvrtcProgram(const NvrtcProgram&) = delete;
  NvrtcProgram& operator=(const NvrtcProgram&) = delete;
  ~NvrtcProgram() { api_.destroy_program(&program_); }
  [[nodiscard]] nvrtcProgram get() const noexcept { return program_; }

 private:
  const NvrtcApi& api_;
  nvrtcProgram program_;
};

}  // namespace kernwright
